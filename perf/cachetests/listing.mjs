// What the suite in a directory tests, and what it has published of others, as JSON.
import fs from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'

const root = process.argv[2]
const load = async name => (await import(pathToFileURL(path.join(root, name)))).default
const tests = []
for (const group of await load('tests/index.mjs')) {
  for (const test of group.tests) {
    if (test.browser_only) continue
    const kind = test.kind || 'required'
    tests.push({ id: test.id, kind, group: group.name, cdn: test.cdn_only === true })
  }
}
const published = []
for (const { file, name, type, version } of await load('results/index.mjs')) {
  const results = JSON.parse(fs.readFileSync(path.join(root, 'results', file)))
  const passed = Object.keys(results).filter(id => results[id] === true)
  published.push({ name, type, version: version || '', passed })
}
console.log(JSON.stringify({ tests, published }))

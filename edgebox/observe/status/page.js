"use strict";
// Draws what `?events` tells, once a second. All text is set as text, never as markup: URLs and
// errors may hold anything that a client can send.
const $ = (id) => document.getElementById(id);
const KINDS = { file: "files", hit: "fresh from cache", stale: "stale from cache", miss: "asked upstream" };
const TYPES = {
  pages: "#3d5fc4", images: "#0f8a79", scripts: "#b8651b", styles: "#8a4fb0", fonts: "#a63d6a",
  data: "#4c7a2f", compressed: "#5b6785", films: "#94462f", sound: "#2f7f9e", text: "#6a6f3a", other: "#6d7284",
};

function node(name, attributes = {}, ...children) {
  const svg = ["svg", "path", "line", "circle", "text"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null));
  return made;
}
const fill = (id, ...children) => $(id).replaceChildren(...children);
const empty = (text) => node("p", { class: "empty" }, text);

function scaled(value, base, units) {
  let step = 0;
  while (value >= 999.5 && step < units.length - 1) { value /= base; step++; }
  return [value.toFixed(value >= 99.5 || step === 0 ? 0 : value >= 9.95 ? 1 : 2), units[step]];
}
const bits = (octets) => scaled(octets * 8, 1000, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"]);
function size(octets) {
  const [value, unit] = scaled(octets, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
  return `${Number(value)}\u00a0${unit}`;
}
const count = (number) => number >= 1e6 ? scaled(number, 1000, ["", "k", "M", "G"]).join("\u00a0") : Math.round(number).toLocaleString("en");
const rate = (number) => number > 0 && number < 9.95 ? number.toFixed(1) : count(number);
const percent = (share) => `${share >= 0.9995 || share === 0 ? Math.round(share * 100) : (share * 100).toFixed(1)} %`;
function seconds(value) {
  if (!value) return "–";
  const [worth, unit] = value < 0.000995 ? [1e6, "µs"] : value < 0.995 ? [1e3, "ms"] : [1, "s"];
  return `${Number((value * worth).toPrecision(2))}\u00a0${unit}`;
}
function duration(total, whole = false) {
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = parts.findIndex(([worth]) => total >= worth);
  if (first < 0) return "0 s";
  const [worth, unit] = parts[first], next = parts[first + 1], rest = total % worth;
  const more = next && !whole && Math.floor(rest / next[0]);
  return `${Math.floor(total / worth)} ${unit}${more ? ` ${more} ${next[1]}` : ""}`;
}

function spark(id, values, says) {
  if (values.length < 2) return fill(id);
  const top = Math.max(...values, 1) * 1.08, step = 240 / (values.length - 1);
  const points = values.map((value, at) => `${(at * step).toFixed(1)} ${(48 - value / top * 47).toFixed(1)}`).join("L");
  fill(id, node("svg", { viewBox: "0 0 240 48", preserveAspectRatio: "none", role: "img", "aria-label": says },
    node("path", { class: "area", d: `M0 48L${points}L240 48Z` }), node("path", { class: "line", d: `M${points}` })));
}
function stack(id, parts, whole) {
  fill(id, ...parts.filter(([, value]) => value > 0).map(([colour, value, says]) =>
    node("i", { style: `width:${100 * value / whole}%;background:var(--${colour})`, title: says || "" })));
}
const legend = (colour, text, value) =>
  node("li", {}, node("i", { style: `background:${colour}` }), `${text} `, node("b", {}, value));
const pair = (name, value) => [node("dt", {}, name), node("dd", {}, value)];
const pairs = (id, rows) => fill(id, ...rows.map(([name, value]) => node("div", {}, ...pair(name, value))));
const dot = (state) => node("span", { class: `dot ${state}` });

function drawLink(told) {
  const plan = told.board.plan || {}, sent = told.rates.octets, [value, unit] = bits(sent);
  const ceiling = plan.goodput ? ["link", plan.goodput] : (plan.ceilings || [])[0];
  document.querySelector("#gauge .value").textContent = value;
  document.querySelector("#gauge .unit").textContent = unit;
  const share = ceiling ? sent / ceiling[1] : 0;
  document.querySelector("#gauge .fill").style.strokeDasharray = `${Math.min(share, 1) * 100} 200`;
  $("gauge").classList.toggle("full", share > 0.9);
  const most = ceiling && bits(ceiling[1]).join("\u00a0");
  const says = !ceiling ? "There is no plan to hold this against."
    : ceiling[0] === "link" ? `${percent(share)} of the ${most} that ${plan.interface || "the link"} carries`
    : `${percent(share)} of ${most}, where the first limit is: ${ceiling[0]}`;
  $("gauge-says").textContent = says;
  $("gauge").setAttribute("aria-label", `${value} ${unit}, ${says}`);
  spark("octets-curve", told.curves.octets, "octets a second, the last two minutes");
  return share;
}
function drawRequests(told) {
  const { rates, totals } = told;
  $("requests").textContent = rate(rates.requests);
  spark("requests-curve", told.curves.requests, "requests a second, the last two minutes");
  pairs("requests-pairs", [["express lane", rates.requests ? percent(rates.express / rates.requests) : "–"],
    ["4xx", `${rate(rates["4xx"])}/s`], ["5xx", `${rate(rates["5xx"])}/s`], ["in all", count(totals.requests)]]);
}
function drawRatios({ rates }) {
  const names = Object.keys(KINDS), kinds = names.map((kind) => rates[kind]), octets = names.map((kind) => rates[`${kind}_octets`]);
  for (const [what, values] of [["requests", kinds], ["octets", octets]]) {
    const whole = values.reduce((sum, value) => sum + value, 0), missed = values[names.indexOf("miss")];
    $(`ratio-${what}`).textContent = whole ? percent(1 - missed / whole) : "–";
    stack(`stack-${what}`, names.map((kind, at) => [kind, values[at], KINDS[kind]]), whole || 1);
  }
  fill("kinds", ...names.map((kind, at) => legend(`var(--${kind})`, KINDS[kind], `${rate(kinds[at])}/s`)));
}
function drawLatency({ latency }) {
  const rows = Object.keys(KINDS).filter((kind) => latency[kind] && latency[kind].total.count);
  if (!rows.length) return fill("latency", empty("Nothing was answered in the last minute."));
  const narrow = innerWidth < 704, width = narrow ? 350 : 620, step = narrow ? 40 : 44, top = 26, foot = top + rows.length * step;
  const columns = narrow ? [["p50", 58], ["p99", 0]] : [["first", 186], ["p50", 124], ["p95", 62], ["p99", 0]];
  const left = narrow ? 44 : 50, right = width - columns[0][1] - (narrow ? 56 : 76), lowest = -5;
  const highest = Math.max(0, Math.ceil(Math.log10(Math.max(...rows.map((kind) => latency[kind].total.p99)))));
  const at = (value) => left + (Math.log10(Math.max(value, 1e-5)) - lowest) / (highest - lowest) * (right - left);
  const drawn = node("svg", { class: "lanes", viewBox: `0 0 ${width} ${foot + 22}`, role: "img", "aria-label": "latency percentiles by kind" });
  for (let decade = lowest; decade <= highest; decade++) {
    const x = at(10 ** decade);
    drawn.append(node("line", { class: "grid", x1: x, x2: x, y1: top, y2: foot }));
    if (!narrow || (decade - lowest) % 2 === 0) drawn.append(node("text", { class: "axis", x, y: foot + 17 }, seconds(10 ** decade)));
  }
  for (const [name, back] of columns) drawn.append(node("text", { class: "head", x: width - back, y: 12 }, name));
  rows.forEach((kind, index) => {
    const { first, total } = latency[kind], y = top + index * step + step / 2, colour = `var(--${kind})`;
    drawn.append(node("text", { x: 0, y: y + 4 }, kind),
      node("line", { class: "range", stroke: colour, x1: at(first.p50), x2: at(total.p99), y1: y, y2: y }));
    for (const [value, radius] of [[total.p99, 4.5], [total.p95, 4.5], [total.p50, 6.5]])
      drawn.append(node("circle", { class: "mark", fill: colour, cx: at(value), cy: y, r: radius }));
    for (const [name, back] of columns) drawn.append(node("text", { class: "told", x: width - back, y: y + 4 }, seconds(name === "first" ? first.p50 : total[name])));
  });
  fill("latency", drawn);
}

// Squarified treemap (Bruls, Huizing, van Wijk 2000): rows along the shorter side, each as long
// as its cells come out nearly square.
function squarify(items, x, y, width, height) {
  const cells = [];
  while (items.length) {
    const short = Math.min(width, height), whole = items.reduce((sum, item) => sum + item.area, 0);
    if (!(short > 0) || !(whole > 0)) break;
    const scale = width * height / whole;
    let row = [], best = Infinity, held = 0;
    for (const item of items) {
      const sum = held + item.area * scale, thick = sum / short;
      const worst = Math.max(...[...row, item].map((each) => { const long = each.area * scale / thick; return Math.max(long / thick, thick / long); }));
      if (worst > best) break;
      row.push(item); best = worst; held = sum;
    }
    const thick = held / short;
    let along = 0;
    for (const item of row) {
      const long = item.area * scale / thick;
      cells.push(width >= height ? { item, x, y: y + along, width: thick, height: long } : { item, x: x + along, y, width: long, height: thick });
      along += long;
    }
    if (width >= height) { x += thick; width -= thick; } else { y += thick; height -= thick; }
    items = items.slice(row.length);
  }
  return cells;
}
function drawRam(told) {
  const { sheet, gauges } = told, shelves = sheet.ram.filter((shelf) => shelf.octets > 0);
  $("ram-says").textContent = `${size(gauges.ram_held)} of ${size(gauges.ram_budget)}, ${count(gauges.ram_objects)} objects`;
  if (!shelves.length) { fill("ram-legend"); return fill("ram", empty("Nothing is kept in RAM yet.")); }
  const box = $("ram"), items = shelves.map((shelf) => ({ ...shelf, area: shelf.octets }));
  const cells = squarify(items, 0, 0, box.clientWidth || 400, box.clientHeight || 232);
  fill("ram", ...cells.map(({ item, x, y, width, height }) => node("div", {
    style: `left:${x}px;top:${y}px;width:${width}px;height:${height}px;background:${TYPES[item.type] || TYPES.other}`,
    title: `${item.site}, ${item.type}: ${size(item.octets)}, ${count(item.objects)} objects`,
  }, ...(width > 64 ? [item.type, size(item.octets), item.site].slice(0, Math.max(0, Math.floor((height - 8) / 17))) : []).map((text) => node("span", {}, text)))));
  const sums = new Map();
  for (const { type, octets } of shelves) sums.set(type, (sums.get(type) || 0) + octets);
  fill("ram-legend", ...[...sums].sort((a, b) => b[1] - a[1]).slice(0, 8).map(([type, octets]) => legend(TYPES[type] || TYPES.other, type, size(octets))));
}
function drawWhatIf({ sheet, gauges }) {
  const points = sheet.what_if;
  $("what-if-says").textContent = "";
  if (points.length < 2) return fill("what-if", empty("What more RAM would bring shows once enough has been asked for."));
  const width = 340, height = 170, left = 34, bottom = 24, most = points.at(-1)[0], least = Math.min(...points.map((p) => p[1]));
  const floor = Math.max(0, Math.floor((least - 0.05) * 10) / 10), x = (octets) => left + octets / most * (width - left - 8), y = (ratio) => 8 + (1 - ratio) / (1 - floor) * (height - bottom - 8);
  const now = gauges.ram_capacity, after = points.findIndex((point) => point[0] >= now);
  const between = (octets) => {
    const next = points.findIndex((point) => point[0] >= octets);
    if (next < 0) return points.at(-1)[1];
    if (next === 0) return points[0][1];
    const [from, to] = [points[next - 1], points[next]];
    return from[1] + (to[1] - from[1]) * (octets - from[0]) / (to[0] - from[0]);
  };
  const drawn = node("svg", { class: "curve", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "hit ratio by RAM" });
  for (const ratio of [floor, (1 + floor) / 2, 1]) drawn.append(
    node("line", { class: "rule", x1: left, x2: width - 8, y1: y(ratio), y2: y(ratio) }),
    node("text", { x: left - 6, y: y(ratio) + 4, "text-anchor": "end" }, `${Math.round(ratio * 100)}%`));
  for (const share of [0, 0.5, 1]) drawn.append(node("text", { x: x(most * share), y: height - 6, "text-anchor": ["start", "middle", "end"][share * 2] }, share ? size(most * share) : "0"));
  drawn.append(node("path", { class: "line", d: `M${points.map(([octets, ratio]) => `${x(octets)} ${y(ratio)}`).join("L")}` }));
  if (now <= most) drawn.append(node("circle", { class: "now", cx: x(now), cy: y(between(now)), r: 6 }));
  fill("what-if", drawn);
  const next = points.find((point) => point[0] >= now * 1.5) || points.at(-1), gain = next[1] - between(now);
  if (after >= 0 && next[0] > now) $("what-if-says").textContent = `Hit ratio now ${percent(between(now))}; with ${size(next[0] - now)} more it would be ${gain < 0.0005 ? "the same" : percent(next[1])}.`;
}
function drawConnections({ gauges, rates, totals }) {
  const free = Math.max(0, gauges.connections_limit - gauges.connections);
  $("connections").textContent = count(gauges.connections);
  $("connections-limit").textContent = `of ${count(gauges.connections_limit)} that there may be`;
  stack("stack-connections", [["glow", gauges.tasks, "busy"], ["file", gauges.idle, "idle"]], gauges.connections_limit || 1);
  fill("connections-legend", legend("var(--glow)", "busy", count(gauges.tasks)), legend("var(--file)", "idle", count(gauges.idle)), legend("var(--soft)", "free", count(free)));
  pairs("connections-pairs", [["new a second", rate(rates.accepted)], ["turned away", count(totals.busy)], ["shed", count(totals.shed)]]);
}
function drawWorkers({ workers, board }) {
  const row = (cell, values) => node("tr", {}, ...values.map((value) => node(cell, {}, value)));
  fill("workers", row("th", ["pid", "requests", "open", "RAM", "up", "lag"]), ...workers.map((each) => row("td", [
    `${each.pid}${each.draining ? " drains" : ""}`, count(each.requests), count(each.connections), size(each.ram), duration(each.uptime, true), seconds(each.lag_ms / 1000)])));
  const [first, next] = (board.plan || {}).ceilings || [];
  fill("plan", ...(first ? [["first to run out", `${first[0]}, ${bits(first[1]).join("\u00a0")}`]] : []).concat(next ? [["then", `${next[0]}, ${bits(next[1]).join("\u00a0")}`]] : [])
    .map(([name, value]) => node("div", {}, ...pair(name, value))));
}
function drawHot({ sheet }) {
  if (!sheet.hot.length) return fill("hot", node("tr", {}, node("td", { class: "empty" }, "Nothing was asked for yet.")));
  const most = sheet.hot[0][1] || 1, head = node("tr", {}, ...["URL", "requests", "sent"].map((name) => node("th", {}, name)));
  fill("hot", head, ...sheet.hot.slice(0, 12).map(([url, hits, octets]) => node("tr", {}, node("td", { title: url }, url),
    node("td", {}, node("div", { class: "bar" }, node("i", { style: `width:${100 * hits / most}%` }), node("b", {}, count(hits)))), node("td", {}, size(octets)))));
}
function drawUpstreams({ sheet }) {
  const states = { up: "good", down: "bad", ejected: "bad" };
  if (!sheet.upstreams.length) return fill("upstreams", node("li", {}, empty("No route has an upstream.")));
  fill("upstreams", ...sheet.upstreams.map((each) => node("li", {}, dot(states[each.standing] || "warn"),
    node("span", { class: "name", title: each.server }, each.server), node("span", {}, each.standing),
    node("span", { class: "more" }, `${each.pool}: ${count(each.answered)} answered, ${count(each.failed)} failed, ${each.active} busy and ${each.idle} idle connections${each.head_us ? `, ${seconds(each.head_us / 1e6)} to the head` : ""}`))));
}
function drawErrors({ sheet, time }) {
  if (!sheet.errors.length) return fill("errors", node("li", {}, empty("None.")));
  fill("errors", ...sheet.errors.map(([at, level, text]) => node("li", {}, dot(level === "error" ? "bad" : "warn"),
    node("time", { datetime: new Date(at * 1000).toISOString(), title: new Date(at * 1000).toString() }, `${duration(Math.max(0, time - at), true)} ago`), node("p", {}, text))));
}
function drawVerdict(told, share) {
  const out = told.sheet.upstreams.filter((each) => each.standing !== "up").length;
  const [state, text] = !told.workers.length ? ["bad", "no worker is alive"]
    : out ? ["warn", `${out} upstream server${out > 1 ? "s" : ""} not up`]
    : told.rates["5xx"] > 0.01 * told.rates.requests ? ["bad", "more than 1 % of answers are 5xx"]
    : share > 0.9 ? ["warn", "the link is full"] : ["good", "all is well"];
  $("verdict").className = state;
  $("verdict").lastElementChild.textContent = text;
  $("host").textContent = told.host;
  document.title = `${told.host} · edgebox`;
  $("facts").textContent = `edgebox ${told.version}, up ${duration(told.uptime)}, ${told.workers.length} worker${told.workers.length === 1 ? "" : "s"}`;
}

let latest = null;
function draw(told) {
  latest = told;
  document.querySelector("main").hidden = false;
  document.querySelector("main").classList.remove("old");
  const share = drawLink(told);
  for (const part of [drawRequests, drawRatios, drawLatency, drawRam, drawWhatIf, drawConnections, drawWorkers, drawHot, drawUpstreams, drawErrors]) part(told);
  drawVerdict(told, share);
  document.documentElement.dataset.drawn = told.time;
}
addEventListener("resize", () => latest && draw(latest));
const events = new EventSource("?events");
events.onmessage = (event) => {
  latest = JSON.parse(event.data);
  if (!document.hidden) draw(latest);
};
document.addEventListener("visibilitychange", () => latest && draw(latest));
events.onerror = () => {
  document.querySelector("main").classList.add("old");
  $("verdict").className = "bad";
  $("verdict").lastElementChild.textContent = "no answer: trying again";
};

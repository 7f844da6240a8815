// The suite's own origin server, but on loopback alone: it would listen on every address.
import net from 'node:net'

const listen = net.Server.prototype.listen
net.Server.prototype.listen = function (port) {
  return listen.call(this, Number(port), '127.0.0.1')
}
await import(process.argv[2])

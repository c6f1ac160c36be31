// nats.js over WebSocket: publish, subscribe, headers, request. Prints `ok` when all of it works.
const { wsconnect, headers } = require("@nats-io/nats-core")

async function main() {
  const client = await wsconnect({ servers: process.argv[2], reconnect: false })
  const messages = client.subscribe("volcanoes.>", { max: 2 })
  client.subscribe("double", { callback: (_, message) => message.respond(message.string() + message.string()) })
  await client.flush()
  const block = headers()
  block.set("Unit", "celsius")
  client.publish("volcanoes.usa.atka", "21.5", { headers: block })
  client.publish("volcanoes.italy.etna", "x".repeat(100000))
  const got = []
  for await (const message of messages) got.push([message.subject, message.string().length, message.headers?.get("Unit")])
  const reply = await client.request("double", "ab", { timeout: 5000 })
  await client.drain()
  const wanted = [["volcanoes.usa.atka", 4, "celsius"], ["volcanoes.italy.etna", 100000, undefined]]
  if (JSON.stringify(got) !== JSON.stringify(wanted) || reply.string() !== "abab") throw new Error(JSON.stringify(got))
  console.log("ok")
}

main().catch((error) => { console.error(error); process.exit(1) })

// The memory of each view while a thousand producers send: node memory.mjs ADDRESS FOLDER NATS-PORT MINUTES. One of them moves to
// another set each second, and clients come and go. Prints a line of JSON for each view and minute: bytes of JavaScript's heap,
// nodes of the page, listeners. What the browser keeps of each request for its developer tools is not of the page, and not counted.
import net from "node:net"
import { chromium } from "playwright-core"
import { FLAGS, PATIENCE, describe, id, more, open } from "./page.mjs"

const [nats, minutes] = more.map(Number)
const MOVING = 30

async function details(page) {
  for (const at of [0, 1, 2]) await page.locator(".rows [role=row] [type=checkbox]").nth(at).check({ timeout: PATIENCE })
  await page.locator("[role=row] .id button").nth(3).click()
}

const VIEWS = {
  table: ["ask", { where: "Floor >= 0" }],
  details: ["ask", { where: "Region = 'italy'" }, details],
  map: ["ask", { where: "Region = 'moving'" }, (page) => page.locator("[role=tab]", { hasText: "map" }).click({ timeout: PATIENCE })],
  count: ["ask", { where: "Region = 'moving'" }, (page) => page.locator("[role=tab]", { hasText: "count" }).click({ timeout: PATIENCE })],
  view: ["ask", { where: "select Region, Kind, count(*) where has Kind" }],
  topics: ["topics", { topic: "volcanoes.>", at: "volcanoes.7" }, (page) => page.locator(".messages .plot").first().click({ timeout: PATIENCE })],
  ...Object.fromEntries(["overview", "publish", "consumers", "cluster", "archive"].map((view) => [view, [view, {}]])),
}

for (let number = 5000; number < 5000 + MOVING; number++) await describe(number, { Region: "moving", Kind: "tilt", lat: number % 10, lon: number % 7 })
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: FLAGS })
const seen = []
for (const [name, [view, options, use]] of Object.entries(VIEWS)) {
  const context = await browser.newContext({ viewport: { width: 1400, height: 850 } })
  const page = await context.newPage()
  await open(page, view, options)
  await use?.(page)
  seen.push([name, await context.newCDPSession(page)])
}

let turn = 0
const churn = setInterval(() => {
  turn++
  describe(5000 + (turn % MOVING), { Region: Math.floor(turn / MOVING) % 2 ? "moving" : "elsewhere" }).catch(() => {})
  if (turn % 3) return
  const client = net.connect(nats, "127.0.0.1")
  client.on("error", () => {}).resume().write(`CONNECT {"name": "client ${turn % 10}", "verbose": false}\r\nSUB lab.${turn % 5} 1\r\nPING\r\n`)
  setTimeout(() => client.destroy(), 2500)
}, 1000)

const begin = Date.now()
for (let minute = 1; minute <= minutes; minute++) {
  await new Promise((done) => setTimeout(done, begin + minute * 60000 - Date.now()))
  for (const [view, own] of seen) {
    let least = Infinity
    for (let look = 0; look < 3; look++) { // what is being drawn just now does not count
      await own.send("HeapProfiler.collectGarbage")
      least = Math.min(least, (await own.send("Runtime.getHeapUsage")).usedSize)
    }
    const { nodes, jsEventListeners } = await own.send("Memory.getDOMCounters")
    console.log(JSON.stringify({ minute, view, bytes: least, nodes, listeners: jsEventListeners }))
  }
}
clearInterval(churn)
await browser.close()

// The pictures of the documentation: node pictures.mjs ADDRESS FOLDER NATS-PORT. Stations on volcanoes are connected at the
// NATS door, send readings, and change their status; then the page is looked at.
import net from "node:net"
import { chromium } from "playwright-core"
import { FLAGS, PATIENCE, id, more, open, pictures, size } from "./page.mjs"

const STATIONS = [
  ["italy", "etna", 37.75, 14.99, 61], ["italy", "stromboli", 38.79, 15.21, 72], ["italy", "vulcano", 38.4, 14.96, 44],
  ["iceland", "hekla", 63.98, -19.67, 9], ["iceland", "katla", 63.63, -19.05, 3], ["iceland", "askja", 65.03, -16.75, 6],
  ["usa", "kilauea", 19.42, -155.29, 84], ["usa", "atka", 52.33, -174.14, 21], ["usa", "hood", 45.37, -121.7, 14],
  ["japan", "sakurajima", 31.58, 130.66, 48], ["japan", "aso", 32.88, 131.1, 55],
  ["tanzania", "meru", -3.25, 36.75, 18], ["tanzania", "lengai", -2.76, 35.91, 77],
  ["chile", "villarrica", -39.42, -71.93, 58], ["indonesia", "merapi", -7.54, 110.45, 66],
]
const KINDS = { temperature: ["°C", 1, 0], so2: ["ppm", 4, 180], tilt: ["µrad", 0.4, 5] }

// Repeatable, so that two runs give the same values.
let seed = 7
const chance = () => (seed = (seed * 16807) % 2147483647) / 2147483647

const instruments = STATIONS.flatMap(([Region, Station, lat, lon, calm], place) =>
  Object.entries(KINDS).map(([Kind, [Unit, factor, base]], kind) => ({
    id: id(3 * place + kind), topic: `volcanoes.${Region}.${Station}.${Kind}`, value: base + factor * calm, step: factor,
    metadata: { Region, Station, Kind, Unit, Status: "quiet", lat, lon },
  })))

const door = (host, port) => new Promise((done) => {
  const client = net.connect(port, host, () => done(client))
  client.resume().write('CONNECT {"verbose": false, "headers": true, "name": "stations"}\r\n')
})

function say(client, { id, topic, value, metadata }, described) {
  const fields = `NATS/1.0\r\nProducer: ${id}\r\n${described ? `Metadata: ${JSON.stringify(metadata)}\r\n` : ""}\r\n`
  const [text, header] = [value.toFixed(1), Buffer.byteLength(fields)]
  client.write(`HPUB ${topic} ${header} ${header + text.length}\r\n${fields}${text}\r\n`)
}

const first = await door("127.0.0.1", Number(more[0]))
const second = await door("127.0.0.1", Number(more[0])) // goes away, so that some are offline
const isLeaving = ({ metadata }) => metadata.Station === "vulcano" && metadata.Kind === "tilt"
const clientOf = (each) => (isLeaving(each) ? second : first)
for (const each of instruments) say(clientOf(each), each, true)
const sending = setInterval(() => {
  for (const each of instruments) {
    if (second.destroyed && isLeaving(each)) continue
    each.value += (chance() - 0.5) * 3 * each.step
    say(clientOf(each), each, false)
  }
}, 400)

const change = (station, status) => instruments.filter(({ metadata }) => metadata.Station === station).forEach((each) => {
  each.metadata.Status = status
  say(clientOf(each), each, true)
})

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: FLAGS })
async function looked(height, scheme, use) {
  const page = await (await browser.newContext({ viewport: { width: 1280, height }, deviceScaleFactor: 1.5, colorScheme: scheme })).newPage()
  await use(page)
  await page.context().close()
}

await looked(680, "light", async (page) => {
  await open(page, "ask", { where: "Region in ('italy', 'iceland') and Status = 'quiet'" })
  await size(page, "18")
  change("katla", "erupting")
  await page.locator("[role=tab]", { hasText: "count" }).waitFor({ timeout: PATIENCE })
  await page.waitForTimeout(14000)
  second.destroy()
  await page.waitForTimeout(9000)
  change("katla", "quiet")
  change("hekla", "erupting")
  await page.locator(".row.gone").first().waitFor({ timeout: PATIENCE })
  await page.waitForTimeout(900)
  await page.locator("body").click({ position: { x: 5, y: 600 } })
  await page.screenshot({ path: `${pictures}/ask-wide.png` })
})
await looked(700, "dark", async (page) => {
  await open(page, "ask", { where: "Kind = 'temperature'" })
  await size(page, "15")
  await page.locator("[role=tab]", { hasText: "map" }).click()
  await page.waitForTimeout(3000)
  await page.screenshot({ path: `${pictures}/map.png` })
})
await looked(700, "light", async (page) => {
  await open(page, "topics", { at: "volcanoes.italy.etna.temperature" })
  await page.locator(".messages .plot").first().click({ timeout: PATIENCE })
  await page.waitForTimeout(12000)
  await page.screenshot({ path: `${pictures}/topics.png` })
})
clearInterval(sending)
first.destroy()
await browser.close()

// Uses the console as a person would: node use.mjs ADDRESS PICTURES. A line of JSON on stdout for each scenario.
import { chromium } from "playwright-core"

const [address, pictures] = process.argv.slice(2)
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
const PATIENCE = 20000

const id = (number) => `${(((number + 1) * 2654435761) % 2 ** 32).toString(16).padStart(8, "0")}-0000-4000-8000-${String(number).padStart(12, "0")}`

async function send(method, path, body, headers = {}) {
  const response = await fetch(address + path, { method, body, headers })
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`)
  return response.status === 204 ? null : response.json()
}

const describe = (number, metadata) => send("PATCH", `/v1/producers/${id(number)}`, JSON.stringify(metadata))
const read = (number, value) => send("POST", `/v1/topics/readings/${id(number)}`, String(value), { "Fumarole-Producer": id(number) })

function expect(truth, text) {
  if (!truth) throw new Error(text)
}

async function open(page, view, options = {}) {
  const text = new URLSearchParams(options).toString()
  await page.goto("about:blank")
  await page.goto(`${address}/#${view}${text ? `?${text}` : ""}`)
}

const size = (page, text) => page.locator("[data-testid=size]", { hasText: new RegExp(`^${text} `) }).waitFor({ timeout: PATIENCE })
const row = (page, number) => page.locator("[role=row]", { has: page.locator(`button[title="${id(number)}"]`) })

const scenarios = {
  async "a query is typed, with completions, and its set is live"(page) {
    await open(page, "ask")
    await size(page, "30")
    await page.locator("#query").pressSequentially("Regi")
    await page.locator("#choices li", { hasText: "Region" }).waitFor()
    await page.keyboard.press("Tab")
    await page.locator("#query").pressSequentially(" = 'it")
    await page.locator("#choices li", { hasText: "'italy'" }).waitFor()
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await size(page, "10")
    expect(page.url().includes("Region"), "the query is in the address")
    await describe(100, { Region: "italy", Kind: "so2" })
    await size(page, "11")
    await row(page, 100).locator("button", { hasText: "+" }).waitFor({ timeout: PATIENCE })
    await read(100, 21.5)
    await row(page, 100).locator(".value", { hasText: "21.5" }).waitFor({ timeout: PATIENCE })
    await describe(100, { Region: "hawaii" })
    await size(page, "10")
    await row(page, 100).waitFor({ state: "detached", timeout: 6000 })
  },

  async "a mistake is shown at its place, and the last answer stays"(page) {
    await open(page, "ask", { where: "Region = 'italy'" })
    await size(page, "10")
    await page.locator("#query").fill("Region == 'italy'")
    await page.keyboard.press("Enter")
    await page.locator("#query-problem").waitFor()
    const mark = await page.locator("#query-problem .mark").textContent()
    expect(mark === `${" ".repeat(8)}▲`, `the mark is at ${mark.length - 1}`)
    await size(page, "10")
    await page.locator("#query").fill("Region = 'hawaii'")
    await page.keyboard.press("Enter")
    await page.locator("#query-problem").waitFor({ state: "detached" })
  },

  async "facets count the set, and a click refines the query"(page) {
    await open(page, "ask", { where: "Region = 'italy'" })
    const choice = page.locator(".facets button", { hasText: "so2" })
    await choice.waitFor({ timeout: PATIENCE })
    expect((await choice.textContent()).endsWith("5"), "five of ten are so2")
    await choice.click()
    await size(page, "5")
    expect((await page.locator("#query").inputValue()) === "Region = 'italy' and Kind = 'so2'", "the test was added")
  },

  async "a producer's page says why it is in the set"(page) {
    await open(page, "ask", { where: "Region = 'italy' and not Floor > 3" })
    await row(page, 0).locator(".id button").click({ timeout: PATIENCE })
    const about = page.locator(".producer")
    await about.locator("th", { hasText: "Region" }).waitFor({ timeout: PATIENCE })
    await about.locator(".truth.true").first().waitFor()
    await page.keyboard.press("Escape")
    await about.waitFor({ state: "detached" })
  },

  async "hostile names are text"(page) {
    const hostile = "<img src=x onerror=window.hacked=1>"
    await describe(200, { [hostile]: `${hostile}\u202egnp.exe`, Region: "<script>window.hacked=1</script>", Evil: true })
    await open(page, "ask", { where: "Evil" })
    await size(page, "1")
    await page.locator("[role=cell]", { hasText: "\\u202e" }).waitFor({ timeout: PATIENCE })
    await row(page, 200).locator(".id button").click()
    await page.locator(".producer td", { hasText: "onerror" }).waitFor({ timeout: PATIENCE })
    expect((await page.evaluate(() => window.hacked)) === undefined, "nothing of it ran")
    expect((await page.locator("main img").count()) === 0, "no image was made of it")
    await send("DELETE", `/v1/producers/${id(200)}`)
  },

  async "messages come as they are published, and a number is plotted"(page) {
    await open(page, "topics", { topic: "lab.>" })
    await page.locator(".live").waitFor({ timeout: PATIENCE })
    for (const value of [1, 2, 3]) await send("POST", "/v1/topics/lab/one", String(value))
    await send("POST", "/v1/topics/lab/two", '{"a": 1, "b": {"c": 2}}')
    await page.locator(".messages li", { hasText: "lab.two" }).waitFor({ timeout: PATIENCE })
    await page.locator(".messages [role=tab]", { hasText: "json" }).click()
    await page.locator("pre", { hasText: '"c": 2' }).waitFor()
    await page.locator(".messages button", { hasText: "plot" }).first().click()
    await page.locator(".messages canvas").waitFor({ timeout: PATIENCE })
    await page.locator(".levels .name", { hasText: "lab" }).first().waitFor()
  },

  async "a message is published, a producer described and previewed"(page) {
    await open(page, "publish")
    const forms = page.locator(".publish form")
    await forms.nth(0).locator("[name=topic]").fill("lab.hand")
    await forms.nth(0).locator("[name=payload]").fill("by hand")
    await forms.nth(0).locator("button.first").click()
    await forms.nth(0).locator("[role=status]", { hasText: "It went to" }).waitFor({ timeout: PATIENCE })
    await forms.nth(2).locator("[name=id]").fill(id(1))
    await forms.nth(2).locator("[name=metadata]").fill('{"Note": "seen"}')
    await forms.nth(2).locator("button", { hasText: "Preview" }).click()
    await forms.nth(2).locator("[role=status]", { hasText: "This brings it into" }).waitFor({ timeout: PATIENCE })
    await forms.nth(2).locator("button", { hasText: "Describe" }).click()
    await forms.nth(2).locator(".done", { hasText: "It has" }).waitFor({ timeout: PATIENCE })
    await forms.nth(1).locator("[name=topic]").fill("lab.nowhere")
    await forms.nth(1).locator("button.first").click()
    await forms.nth(1).locator(".problem", { hasText: "no consumer" }).waitFor({ timeout: PATIENCE })
  },

  async "the overview, consumers, cluster and archive have their figures"(page) {
    await open(page, "overview")
    await page.locator(".tile", { hasText: "producers" }).locator(".figure", { hasText: /\d/ }).waitFor({ timeout: PATIENCE })
    await page.locator("article", { hasText: "Connections by door" }).locator("td").first().waitFor()
    await open(page, "consumers")
    await page.locator("h2", { hasText: "Connections of this node" }).waitFor({ timeout: PATIENCE })
    await open(page, "cluster")
    await page.locator(".picture circle").first().waitFor({ timeout: PATIENCE })
    await open(page, "archive")
    await page.locator("h2", { hasText: "Run a query on history" }).waitFor({ timeout: PATIENCE })
  },

  async "a connection is cut off by an administrator"(page) {
    const stopped = new AbortController()
    const stream = await fetch(`${address}/v1/stream?topic=cut`, { signal: stopped.signal })
    const before = (await send("GET", "/v1/connections")).connections.map((each) => each.id)
    await open(page, "consumers")
    const mine = Math.max(...before.filter((each) => each !== undefined))
    page.once("dialog", (dialog) => dialog.accept())
    const target = page.locator("tr", { has: page.locator("td:first-child", { hasText: new RegExp(`^${mine - 1}$`) }) })
    await (await target.count() ? target : page.locator("tbody tr").last()).locator("button", { hasText: "Cut off" }).click({ timeout: PATIENCE })
    await page.locator("[role=status]", { hasText: "is closed" }).waitFor({ timeout: PATIENCE })
    stopped.abort()
    await stream.body.cancel().catch(() => {})
  },

  async "the lines of copy as can be had"(page) {
    await open(page, "ask", { where: "Region = 'italy'" })
    await page.locator("button", { hasText: "Copy as" }).click({ timeout: PATIENCE })
    await page.locator(".popup pre", { hasText: "client.where" }).waitFor({ timeout: PATIENCE })
    await page.locator(".popup [role=tab]", { hasText: "curl" }).click()
    await page.locator(".popup pre", { hasText: "curl -N" }).waitFor()
    await page.locator(".popup [role=tab]", { hasText: "mosquitto_sub" }).click()
    await page.locator(".popup", { hasText: "MQTT has no place for a query" }).waitFor()
  },

  async "a hidden tab asks for nothing"(page) {
    await open(page, "ask")
    await size(page, "\\d+")
    await page.evaluate(() => {
      Object.defineProperty(document, "hidden", { get: () => true })
      document.dispatchEvent(new Event("visibilitychange"))
    })
    await page.waitForTimeout(1500)
    let asked = 0
    page.on("request", () => asked++)
    await page.waitForTimeout(3000)
    expect(asked === 0, `${asked} requests of a hidden tab`)
  },

  async "it fits a phone, and dark colours"(page) {
    for (const [name, width, scheme] of [["wide", 1400, "light"], ["tablet", 900, "dark"], ["phone", 400, "light"]]) {
      await page.setViewportSize({ width, height: 850 })
      await page.emulateMedia({ colorScheme: scheme })
      await open(page, "ask", { where: "Region = 'italy'" })
      await size(page, "10")
      const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
      expect(over <= 0, `${name}: the page is ${over} pixels too wide`)
      for (let round = 0; round < 4; round++) {
        for (let number = 0; number < 30; number += 3) await read(number, 20 + ((number * 7 + round * 5) % 23))
        await page.waitForTimeout(1100)
      }
      await page.screenshot({ path: `${pictures}/ask-${name}.png` })
    }
  },
}

for (let number = 0; number < 30; number++) {
  const region = ["italy", "hawaii", "iceland"][number % 3]
  const station = `${region.slice(0, 2).toUpperCase()}-${1 + (number % 4)}`
  await describe(number, { Region: region, Station: station, Kind: number % 2 ? "tilt" : "so2", Floor: number % 5, Critical: number % 7 === 0 })
  await read(number, 10 + number)
}
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: FLAGS })
for (const [name, use] of Object.entries(scenarios)) {
  const page = await browser.newPage({ viewport: { width: 1400, height: 850 } })
  const faults = []
  page.on("pageerror", (error) => faults.push(error.message))
  page.on("console", (message) => /Content Security Policy/.test(message.text()) && faults.push(message.text()))
  let problem = ""
  try {
    await use(page)
    expect(faults.length === 0, faults.join("; "))
  } catch (error) {
    problem = String(error.message).slice(0, 1000)
    await page.screenshot({ path: `${pictures}/failed.png` }).catch(() => {})
  }
  console.log(JSON.stringify({ name, problem }))
  await page.close()
}
await browser.close()

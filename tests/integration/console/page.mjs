// What the scenarios share: the browser, the calls of the web door, and what a person looks for on the page.
// `node SCENARIOS.mjs ADDRESS PICTURES [MORE…]` prints a line of JSON for each scenario: its name, and its problem or "".
import { readFileSync } from "node:fs"
import { chromium } from "playwright-core"

export const [address, pictures, ...more] = process.argv.slice(2)
export const PATIENCE = 20000
export const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
const AXE = readFileSync(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8")

export const id = (number) => `${(((number + 1) * 2654435761) % 2 ** 32).toString(16).padStart(8, "0")}-0000-4000-8000-${String(number).padStart(12, "0")}`

export async function send(method, path, body, headers = {}, at = address) {
  const response = await fetch(at + path, { method, body, headers })
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`)
  return response.status === 204 ? null : response.json()
}

export const describe = (number, metadata, headers = {}, at = address) => send("PATCH", `/v1/producers/${id(number)}`, JSON.stringify(metadata), headers, at)
export const read = (number, value, headers = {}, at = address) => send("POST", `/v1/topics/readings/${id(number)}`, String(value), { ...headers, "Fumarole-Producer": id(number) }, at)

export function expect(truth, text) {
  if (!truth) throw new Error(text)
}

export async function until(holds, text) {
  const end = Date.now() + PATIENCE
  while (!(await holds())) {
    expect(Date.now() < end, text)
    await new Promise((done) => setTimeout(done, 100))
  }
}

export async function open(page, view, options = {}, at = address) {
  const text = new URLSearchParams(options).toString()
  await page.goto("about:blank")
  await page.goto(`${at}/#${view}${text ? `?${text}` : ""}`)
}

export const size = (page, text) => page.locator("[data-testid=size]", { hasText: new RegExp(`^${text} `) }).waitFor({ timeout: PATIENCE })
export const row = (page, number) => page.locator("[role=row]", { has: page.locator(`button[title="${id(number)}"]`) })

// The serious faults that axe finds on the page as it is. It is run from outside: the page's own policy allows no script.
export async function barriers(page, rules) {
  await page.evaluate(AXE)
  const found = await page.evaluate((rules) => window.axe.run(document, { resultTypes: ["violations"], ...(rules && { runOnly: rules }) }), rules)
  const grave = found.violations.filter((each) => each.impact === "serious" || each.impact === "critical")
  return grave.map((each) => `${each.id}: ${each.nodes[0].html.slice(0, 160)} ${each.nodes[0].failureSummary.slice(0, 200)}`)
}

// With a lane, such as "0/2", every second one of them, from the first on.
export async function run(scenarios, lane = "0/1") {
  const [turn, lanes] = lane.split("/").map(Number)
  const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: FLAGS })
  const wanted = process.env.SCENARIO
  for (const [number, [name, use]] of Object.entries(scenarios).entries()) {
    if (number % lanes !== turn) continue
    if (wanted && !name.includes(wanted)) continue
    const context = await browser.newContext({ viewport: { width: 1400, height: 850 } })
    const page = await context.newPage()
    const faults = []
    page.on("pageerror", (error) => faults.push(error.message))
    page.on("console", (message) => /Content Security Policy/.test(message.text()) && faults.push(message.text()))
    const begin = performance.now()
    let problem = ""
    try {
      await use(page)
      expect(faults.length === 0, faults.join("; "))
    } catch (error) {
      problem = String(error.message).slice(0, 1000)
      await page.screenshot({ path: `${pictures}/failed-${number}.png` }).catch(() => {})
    }
    console.log(JSON.stringify({ name, problem, seconds: Math.round((performance.now() - begin) / 100) / 10 }))
    await context.close()
  }
  await browser.close()
}

// What a page costs, for bench/console.py: node load.mjs ADDRESS FOLDER SECONDS. With 0 seconds: how a large set is shown.
import { chromium } from "playwright-core"
import { FLAGS, PATIENCE, address, more, open } from "./page.mjs"

const seconds = Number(more[0])
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: FLAGS })
const page = await browser.newPage({ viewport: { width: 1400, height: 850 } })
const whole = await browser.newBrowserCDPSession()
const own = await page.context().newCDPSession(page)

async function processorSeconds() {
  const { processInfo } = await whole.send("SystemInfo.getProcessInfo")
  return processInfo.reduce((sum, each) => sum + each.cpuTime, 0)
}

async function memory() {
  await own.send("HeapProfiler.collectGarbage")
  return (await own.send("Runtime.getHeapUsage")).usedSize
}

const begin = performance.now()
await open(page, "ask", { where: "Floor >= 0" })
await page.locator("[data-testid=size]").waitFor({ timeout: 6 * PATIENCE })
await page.waitForFunction(() => {
  const cells = document.querySelectorAll(".rows [role=row] [role=cell]:last-child")
  return cells.length > 10 && [...cells].every((cell) => cell.textContent !== "")
}, undefined, { timeout: 6 * PATIENCE })
await page.waitForLoadState("networkidle", { timeout: 1000 }).catch(() => {})
const listed = (performance.now() - begin) / 1000
if (seconds) {
  await page.waitForTimeout(3000)
  const first = await memory()
  const [before, from] = [await processorSeconds(), performance.now()]
  await page.waitForTimeout(seconds * 1000)
  const busy = (await processorSeconds()) - before
  const elapsed = (performance.now() - from) / 1000
  console.log(JSON.stringify({ browser: busy / elapsed, growth: (await memory()) / first, listed }))
} else {
  const frame = await page.evaluate(async () => {
    const rows = document.querySelector(".rows")
    const frames = []
    let last = performance.now()
    for (let turn = 0; turn < 120; turn++) {
      rows.scrollTop = ((turn * 7919) % 120) * (rows.scrollHeight / 120)
      const now = await new Promise((done) => requestAnimationFrame(done))
      frames.push(now - last)
      last = now
    }
    frames.sort((one, other) => one - other)
    return frames[Math.floor(frames.length * 0.95)] / 1000
  })
  console.log(JSON.stringify({ listed, frame }))
}
await browser.close()

// The console of a cluster of three, one of which is killed.
import { PATIENCE, describe, more, open, read, row, run, send, size, until } from "./page.mjs"

const [second, third, victim] = more

const scenarios = {
  async "producers of other nodes come and go, one node's death included"(page) {
    await describe(1, { Region: "italy", Kind: "so2" }, {}, second)
    await describe(2, { Region: "italy", Kind: "tilt" }, {}, third)
    await open(page, "ask", { where: "Region = 'italy'" })
    await size(page, "2")
    await read(2, 7.25, {}, third)
    await row(page, 2).locator(".value", { hasText: "7.25" }).waitFor({ timeout: PATIENCE })

    const other = await page.context().newPage()
    await open(other, "cluster")
    await other.locator("td.live").nth(2).waitFor({ timeout: PATIENCE })
    process.kill(Number(victim), "SIGKILL")
    await other.locator("td.problem").first().waitFor({ timeout: PATIENCE })
    await other.locator(".picture circle.down").waitFor({ timeout: PATIENCE })
    await other.close()

    await describe(3, { Region: "italy", Kind: "heat" }, {}, second)
    await row(page, 3).waitFor({ timeout: PATIENCE })
    await read(1, 3.5, {}, second)
    await row(page, 1).locator(".value", { hasText: "3.5" }).waitFor({ timeout: PATIENCE })
    await describe(1, { Region: "hawaii" }, {}, second)
    await row(page, 1).waitFor({ state: "detached", timeout: PATIENCE })
  },

  async "a group has its members of all nodes"(page) {
    const member = new AbortController()
    await fetch(`${second}/v1/stream?topic=lab.>&group=crew`, { signal: member.signal })
    await open(page, "consumers")
    await page.locator("article", { hasText: "crew" }).locator("p", { hasText: /: 1/ }).waitFor({ timeout: PATIENCE })
    member.abort()
    await page.locator("article", { hasText: "crew" }).waitFor({ state: "detached", timeout: PATIENCE })
  },

  async "messages published at another node are shown"(page) {
    await open(page, "topics", { topic: "lab.>" })
    await page.locator(".live").waitFor({ timeout: PATIENCE })
    await until(async () => (await send("POST", "/v1/topics/lab/far", "from afar", {}, second)).delivered_to > 0, "the page's consumer is known to the other node")
    await page.locator(".messages li", { hasText: "from afar" }).first().waitFor({ timeout: PATIENCE })
  },
}

await run(scenarios)

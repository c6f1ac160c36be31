// The console of one node, used as a person would.
import net from "node:net"
import { PATIENCE, address, barriers, describe, expect, id, more, open, pictures, read, row, run, send, size, until } from "./page.mjs"

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
    const gone = page.evaluate((id) => new Promise((done) => {
      const left = { at: 0 }
      const look = () => {
        const row = document.querySelector(`button[title="${id}"]`)?.closest("[role=row]")
        if (!row) done(performance.now() - left.at)
        else if (row.classList.contains("gone")) left.at ||= performance.now()
        requestAnimationFrame(look)
      }
      look()
    }), id(100))
    await describe(100, { Region: "hawaii" })
    await size(page, "10")
    const took = await gone
    expect(took < 3000, `the row that left was there for ${Math.round(took)} ms`)
  },

  async "a query that tests messages has metadata, facets and reasons, however many match"(page) {
    const crowd = Array.from({ length: 210 }, (_, number) => 400 + number)
    const lines = crowd.map((number) => JSON.stringify({ producer: id(number), value: 1, metadata: { Region: "crowd", Kind: `k${number % 3}` } }))
    await send("POST", "/v1/topics", lines.join("\n"), { "Content-Type": "application/x-ndjson" })
    await open(page, "ask", { where: "Region = 'crowd' and $value > 50" })
    await size(page, "210")
    await page.locator(".facets button", { hasText: "k1" }).waitFor({ timeout: PATIENCE })
    await page.locator("[role=cell]", { hasText: /^k2$/ }).first().waitFor({ timeout: PATIENCE })
    expect((await page.locator(".problem").count()) === 0, "no problem is shown")
    await page.locator("[role=row] .id button").first().click()
    await page.locator(".producer .tree", { hasText: "each message decides" }).first().waitFor({ timeout: PATIENCE })
    expect(!(await page.locator(".producer").textContent()).includes("unknown"), "nothing is unknown")
    for (const number of crowd) await send("DELETE", `/v1/producers/${id(number)}`)
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

  async "a view is bars, its mistake is shown at its place, and a row leads to its producers"(page) {
    await open(page, "ask", { where: "select Region, count(*) where has Kind" })
    await size(page, "3")
    const entry = page.locator(".entry", { hasText: "italy" })
    await entry.locator(".value", { hasText: "10" }).waitFor({ timeout: PATIENCE })
    await describe(110, { Region: "italy", Kind: "so2" })
    await entry.locator(".value", { hasText: "11" }).waitFor({ timeout: PATIENCE })
    await send("DELETE", `/v1/producers/${id(110)}`)
    await entry.locator(".value", { hasText: "10" }).waitFor({ timeout: PATIENCE })
    await page.locator("#query").fill("select Region were Kind")
    await page.keyboard.press("Enter")
    await page.locator("#query-problem .mark").waitFor({ timeout: PATIENCE })
    await size(page, "3")
    await entry.locator("button").click()
    await size(page, "10")
  },

  async "an example is taken, and the map has a place for each producer"(page) {
    await open(page, "ask")
    await page.locator(".suggestions button").first().click({ timeout: PATIENCE })
    await size(page, "1[01]")
    await page.locator("[role=tab]", { hasText: "map" }).click()
    await page.locator(".map circle").nth(9).waitFor({ timeout: PATIENCE })
    await page.locator(".map .land").first().waitFor()
  },

  async "a producer outside the set is asked why not"(page) {
    await open(page, "ask", { where: "Region = 'italy' and Kind = 'so2'" })
    await size(page, "5")
    await page.locator("button", { hasText: "Why not" }).click()
    await page.locator(".why-not input").fill("hawaii")
    await page.locator(".why-not li button").first().click({ timeout: PATIENCE })
    const about = page.locator(".producer")
    await about.locator("h3", { hasText: "it is not in the set" }).waitFor({ timeout: PATIENCE })
    await about.locator(".truth.false").first().waitFor()
  },

  async "presence is a mark at each row, and a facet"(page) {
    const client = net.connect(Number(more[0]), "127.0.0.1")
    client.resume()
    const fields = `NATS/1.0\r\nProducer: ${id(120)}\r\nMetadata: {"Region": "present"}\r\n\r\n`
    client.write(`CONNECT {"verbose": false, "headers": true}\r\nHPUB here ${fields.length} ${fields.length + 1}\r\n${fields}7\r\n`)
    await describe(121, { Region: "present" })
    await open(page, "ask", { where: "Region = 'present'" })
    await row(page, 120).locator(".presence.on").waitFor({ timeout: PATIENCE })
    await row(page, 121).locator(".presence.off").waitFor({ timeout: PATIENCE })
    await page.locator(".facets button", { hasText: "online" }).click({ timeout: PATIENCE })
    await size(page, "1")
    client.destroy()
    await size(page, "0")
    for (const number of [120, 121]) await send("DELETE", `/v1/producers/${id(number)}`)
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
    await describe(200, { [hostile]: `${hostile}\u202egnp.exe`, Region: "<script>window.hacked=1</script>", Evil: true, Huge: 1e300 })
    await open(page, "ask", { where: "Evil" })
    await size(page, "1")
    await page.locator("[role=cell]", { hasText: "\\u202e" }).waitFor({ timeout: PATIENCE })
    await row(page, 200).locator(".value", { hasText: /^1.000e\+300$/ }).waitFor({ timeout: PATIENCE })
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

  async "the tree of topics opens level by level, and a topic has its consumers and its retained message"(page) {
    for (const topic of ["deep/a/one", "deep/a/two", "deep/b"]) await send("POST", `/v1/topics/${topic}?retain=1`, "kept")
    const asked = []
    page.on("request", (request) => request.url().includes("/v1/levels") && asked.push(decodeURIComponent(new URL(request.url()).search)))
    await open(page, "topics", { topic: "deep.>" })
    const name = (word) => page.locator(".level .name", { hasText: new RegExp(`^${word}$`) })
    await name("deep").waitFor({ timeout: PATIENCE })
    await page.locator(".level", { hasText: /deep\s*3/ }).waitFor({ timeout: PATIENCE })
    expect((await name("a").count()) === 0 && !asked.includes("?below=deep"), "no level is asked for before it is opened")
    await name("deep").click()
    await name("a").click({ timeout: PATIENCE })
    await name("one").click({ timeout: PATIENCE })
    await page.locator(".messages li", { hasText: "deep.>" }).first().waitFor({ timeout: PATIENCE })
    page.once("dialog", (dialog) => dialog.accept())
    await page.locator(".messages li", { hasText: "deep.a.one" }).locator("button", { hasText: "Remove" }).click({ timeout: PATIENCE })
    await page.locator(".messages summary", { hasText: "retained" }).waitFor({ state: "detached", timeout: PATIENCE })
    for (const topic of ["deep/a/two", "deep/b"]) await send("DELETE", `/v1/topics/${topic}`)
  },

  async "a flood of messages leaves the page at ease"(page) {
    await open(page, "topics", { topic: "flood.>" })
    await page.locator(".live").waitFor({ timeout: PATIENCE })
    const lines = Array.from({ length: 3000 }, (_, number) => JSON.stringify({ topic: `flood.${number % 5}`, payload: "x" })).join("\n")
    await send("POST", "/v1/topics", lines, { "Content-Type": "application/x-ndjson" })
    await page.locator(".bar", { hasText: "once a second" }).waitFor({ timeout: PATIENCE })
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

  async "rows are sorted, filtered, pinned and paused, and their values come as often as the slider says"(page) {
    await open(page, "ask", { where: "Region = 'italy'" })
    await size(page, "10")
    const title = page.locator("[role=columnheader] button", { hasText: "value" })
    await title.click({ timeout: PATIENCE })
    await title.click()
    await page.locator(".rows [role=row]").first().locator(".value", { hasText: /^37$/ }).waitFor({ timeout: PATIENCE })
    for (const number of [0, 3]) await row(page, number).locator("[type=checkbox]").check()
    await until(async () => (await page.locator(".pinned .u-series", { hasText: "IT-" }).count()) === 2, "two lines are in one chart")
    await page.locator("button", { hasText: "Unpin all" }).click()
    await page.locator(".filter").fill("IT-3")
    await until(async () => (await page.locator(".rows [role=row]").count()) < 10, "the rows are filtered")
    await page.locator(".filter").fill("")
    const told = page.waitForRequest((request) => request.method() === "PUT" && request.postDataJSON().every === 10, { timeout: PATIENCE })
    await page.locator("input[type=range]").fill("10")
    await page.locator(".period", { hasText: "10 s" }).waitFor()
    expect((await told).postDataJSON().ids.length === 10, "the rows on the screen are watched")
    await page.locator("input[type=range]").fill("0.5")
    const asked = []
    page.on("request", (request) => request.url().includes("/producers") && asked.push(request.url()))
    for (const value of [91.25, 92.25, 93.25]) {
      await read(0, value)
      await row(page, 0).locator(".value", { hasText: String(value) }).waitFor({ timeout: PATIENCE })
    }
    expect(asked.length === 0, `values come on the stream: ${asked}`)
    await read(0, 10)
    await page.locator("button", { hasText: "Pause" }).click()
    await describe(130, { Region: "italy" })
    await page.locator("button", { hasText: "1 change waiting" }).click({ timeout: PATIENCE })
    await size(page, "11")
    await send("DELETE", `/v1/producers/${id(130)}`)
    await page.locator("[role=tab]", { hasText: "count" }).click()
    await page.locator(".answer .panel canvas").waitFor({ timeout: PATIENCE })
  },

  async "a request has its reply, a message is repeated, a producer is forgotten"(page) {
    const answering = net.connect(Number(more[0]), "127.0.0.1")
    answering.write('CONNECT {"verbose": false}\r\nSUB lab.sum 1\r\nPING\r\n')
    let heard = 0
    answering.on("data", (data) => {
      for (const [, inbox] of String(data).matchAll(/MSG lab\.sum 1 (_INBOX\S+)/g)) answering.write(`PUB ${inbox} 2\r\n42\r\n`)
      heard += [...String(data).matchAll(/MSG lab\.sum 1 \d/g)].length
    })
    await open(page, "publish")
    const forms = page.locator(".publish form")
    await forms.nth(1).locator("[name=topic]").fill("lab.sum")
    await forms.nth(1).locator("button.first").click()
    await forms.nth(1).locator("pre", { hasText: "42" }).waitFor({ timeout: PATIENCE })
    await forms.nth(0).locator("[name=topic]").fill("lab.sum")
    await forms.nth(0).locator("[name=repeat]").fill("0.1")
    await forms.nth(0).locator("button.first").click()
    await until(() => heard >= 3, "the message is repeated")
    await forms.nth(0).locator("button", { hasText: "Stop repeating" }).click()
    answering.destroy()
    await describe(131, { Region: "nowhere" })
    await forms.nth(2).locator("[name=id]").fill(id(131))
    page.once("dialog", (dialog) => dialog.accept())
    await forms.nth(2).locator("button", { hasText: "Forget" }).click()
    await forms.nth(2).locator(".done", { hasText: "forgotten" }).waitFor({ timeout: PATIENCE })
    expect((await fetch(`${address}/v1/producers/${id(131)}`)).status === 404, "the producer is forgotten")
  },

  async "another namespace is told of, and chosen"(page) {
    await send("POST", "/v1/topics/lab/other?namespace=plant", "1")
    await open(page, "ask")
    await page.locator("header .hint", { hasText: "another has traffic" }).waitFor({ timeout: PATIENCE })
    await page.locator("header select").selectOption("plant")
    await size(page, "0")
    expect(page.url().includes("namespace=plant"), "the namespace is in the address")
    await page.locator("nav a", { hasText: "Topics" }).click()
    await until(() => page.url().includes("topics?namespace=plant"), "the namespace stays")
  },

  async "the archive has recorders, alarms that stand, and the commands of a query"(page) {
    const recorder = net.connect(Number(more[0]), "127.0.0.1")
    recorder.resume().write('CONNECT {"verbose": false, "name": "fumarole record tokyo-1"}\r\nSUB > recorder 1\r\nPING\r\n')
    const alarm = { rule: "so2-high", producer: id(3), state: "raised", since: "2026-03-01T12:00:00.000000Z", value: 81.5 }
    await send("POST", "/v1/topics/open/so2-high/x?retain=1", JSON.stringify(alarm))
    await open(page, "ask", { where: "Kind = 'so2'" })
    await page.locator("button", { hasText: "On history" }).click({ timeout: PATIENCE })
    const command = "fumarole pipeline rollup --archive archive --where 'Kind = '\\''so2'\\'''"
    await page.locator("pre", { hasText: command }).waitFor({ timeout: PATIENCE })
    await page.locator("pre", { hasText: `pipeline.archive(spark, "archive", where="Kind = 'so2'")` }).waitFor()
    await page.locator("tr", { hasText: "tokyo-1" }).locator("td", { hasText: /^\d+ B$/ }).waitFor({ timeout: PATIENCE })
    await page.locator("tr", { hasText: "so2-high" }).locator("td", { hasText: "81.5" }).waitFor({ timeout: PATIENCE })
    await send("DELETE", "/v1/topics/open/so2-high/x")
    recorder.destroy()
  },

  async "the overview, consumers, cluster and archive have their figures"(page) {
    await open(page, "overview")
    await page.locator(".tile", { hasText: "producers" }).locator(".figure", { hasText: /\d/ }).waitFor({ timeout: PATIENCE })
    await page.locator("article", { hasText: "Connections by door" }).locator("td").first().waitFor()
    const asking = await page.context().newPage()
    await open(asking, "ask", { where: "Region = 'italy'" })
    await page.locator(".tile", { hasText: "dropped" }).click()
    await page.locator("th[aria-sort=descending]", { hasText: "dropped" }).waitFor({ timeout: PATIENCE })
    await page.locator("h2", { hasText: "Connections of this node" }).waitFor({ timeout: PATIENCE })
    await page.locator("td a", { hasText: "Region = 'italy'" }).waitFor({ timeout: PATIENCE })
    await asking.close()
    await open(page, "cluster")
    await page.locator(".picture circle").first().waitFor({ timeout: PATIENCE })
    await open(page, "archive")
    await page.locator("h2", { hasText: "Run a query on history" }).waitFor({ timeout: PATIENCE })
  },

  async "a connection is cut off by an administrator"(page) {
    const client = net.connect(Number(more[0]), "127.0.0.1")
    client.write('CONNECT {"name": "to be cut", "verbose": false}\r\nPING\r\n')
    client.resume()
    const cut = new Promise((done) => client.on("error", () => {}).on("close", done))
    await open(page, "consumers")
    page.once("dialog", (dialog) => dialog.accept())
    await page.locator("tr", { hasText: "to be cut" }).locator("button", { hasText: "Cut off" }).click({ timeout: PATIENCE })
    await page.locator("[role=status]", { hasText: "is closed" }).waitFor({ timeout: PATIENCE })
    await cut
    await page.locator("tr", { hasText: "to be cut", has: page.locator("button") }).waitFor({ state: "detached", timeout: PATIENCE })
    for (const [kind, reason] of [["join", ""], ["refusal", "administrator"], ["leave", ""]])
      await page.locator(`.journal tr.${kind}`, { hasText: "to be cut" }).filter({ hasText: reason }).waitFor({ timeout: PATIENCE })
  },

  async "the lines of copy as can be had"(page) {
    await open(page, "ask", { where: "Region = 'italy'" })
    await page.locator("button", { hasText: "Copy as" }).click({ timeout: PATIENCE })
    await page.locator(".popup pre", { hasText: "client.where" }).waitFor({ timeout: PATIENCE })
    await page.locator(".popup [role=tab]", { hasText: "curl" }).click()
    await page.locator(".popup pre", { hasText: "curl -N" }).waitFor()
    await page.locator(".popup [role=tab]", { hasText: "mosquitto_sub" }).click()
    await page.locator(".popup", { hasText: "MQTT has no place for a query" }).waitFor()
    await page.locator(".popup [role=tab]", { hasText: "javascript" }).click()
    const lines = await page.locator(".popup pre", { hasText: "EventSource" }).textContent()
    const heard = page.waitForEvent("console", { predicate: (message) => message.text().includes(`"New":["${id(0)}"`), timeout: PATIENCE })
    await page.evaluate(lines)
    await heard
  },

  async "a hidden tab asks for nothing"(page) {
    await page.clock.install()
    await open(page, "ask")
    await size(page, "\\d+")
    const closed = page.waitForEvent("requestfailed", { predicate: (request) => request.url().includes("/v1/stream"), timeout: PATIENCE })
    await page.evaluate(() => {
      Object.defineProperty(document, "hidden", { get: () => true })
      document.dispatchEvent(new Event("visibilitychange"))
    })
    await closed
    let asked = 0
    page.on("request", () => asked++)
    await page.clock.runFor(60000)
    expect(asked === 0, `${asked} requests of a hidden tab in a minute`)
  },

  async "it fits a phone, and dark colours"(page) {
    await open(page, "ask", { where: "Region = 'italy'" })
    await size(page, "10")
    for (const [name, width, scheme] of [["wide", 1400, "light"], ["tablet", 900, "dark"], ["phone", 400, "light"]]) {
      await page.setViewportSize({ width, height: 850 })
      await page.emulateMedia({ colorScheme: scheme })
      const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
      expect(over <= 0, `${name}: the page is ${over} pixels too wide`)
      await page.screenshot({ path: `${pictures}/ask-${name}.png` })
    }
  },

  async "a lost connection is shown, and mended by itself"(page) {
    const target = new URL(address)
    const ways = new Set()
    const between = net.createServer((near) => {
      const far = net.connect(Number(target.port), target.hostname)
      for (const [one, other] of [[near, far], [far, near]]) {
        ways.add(one)
        one.on("error", () => {}).on("close", () => other.destroy())
        one.pipe(other)
      }
    })
    const listen = (port) => new Promise((done) => between.listen(port, "127.0.0.1", done))
    await listen(0)
    const port = between.address().port
    await open(page, "ask", { where: "Region = 'italy'" }, `http://127.0.0.1:${port}`)
    await size(page, "10")
    between.close()
    for (const each of ways) each.destroy()
    await page.locator(".bar .problem", { hasText: "connection lost" }).waitFor({ timeout: PATIENCE })
    await size(page, "10")
    await describe(300, { Region: "italy", Kind: "while it was lost" })
    await describe(0, { Region: "moved" })
    await listen(port)
    await row(page, 300).waitFor({ timeout: PATIENCE })
    await row(page, 0).waitFor({ state: "detached", timeout: PATIENCE })
    await size(page, "10")
    await page.locator(".bar .live").waitFor()
    await describe(0, { Region: "italy" })
    await send("DELETE", `/v1/producers/${id(300)}`)
    between.close()
    for (const each of ways) each.destroy()
  },

  async "each view says that the connection is lost, until it is there again"(page) {
    const { clock } = page.context() // one for all its pages
    await clock.install()
    const views = await Promise.all(["overview", "consumers", "cluster", "archive"].map(async (view) => {
      const other = await page.context().newPage()
      await open(other, view)
      await other.locator("main > section > *").nth(1).waitFor({ timeout: PATIENCE })
      return other
    }))
    for (const isOffline of [true, false]) {
      await page.context().setOffline(isOffline)
      await until(async () => {
        await clock.runFor(1000) // each view asks again
        const said = await Promise.all(views.map((other) => other.locator(".problem", { hasText: "connection lost, trying again…" }).isVisible()))
        return said.every((isThere) => isThere === isOffline)
      }, `each view says that the connection is ${isOffline ? "lost" : "there again"}`)
    }
  },

  async "it is used by keyboard alone"(page) {
    await open(page, "overview")
    await page.locator(".tile").first().waitFor({ timeout: PATIENCE })
    await page.keyboard.press("Tab")
    expect((await page.evaluate(() => document.activeElement.textContent)) === "Skip to the view", "the first stop skips to the view")
    await page.locator("nav a", { hasText: "Ask" }).focus()
    await page.keyboard.press("Enter")
    await size(page, "\\d+")
    await page.locator("#query").focus()
    await page.keyboard.type("Region = 'italy'")
    await page.keyboard.press("Escape")
    await page.keyboard.press("Enter")
    await size(page, "10")
    await page.locator("[role=row] .id button").first().focus()
    await page.keyboard.press("Enter")
    await page.locator(".producer").waitFor({ timeout: PATIENCE })
    expect(await page.evaluate(() => document.querySelector(".producer").contains(document.activeElement)), "the focus is in the producer's page")
    await page.keyboard.press("Escape")
    await page.locator(".producer").waitFor({ state: "detached" })
    expect(await page.evaluate(() => document.activeElement.closest("[role=row]") !== null), "the focus is back in the table")
  },

  async "no view has a barrier, light or dark, nor is one too wide at twice the size or on a phone"(page) {
    const found = []
    const drawn = () => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(done)))))
    for (const [view, [options, ready]] of Object.entries(VIEWS)) {
      await open(page, view, options)
      await page.locator(ready).first().waitFor({ timeout: PATIENCE })
      await drawn()
      for (const each of await barriers(page)) found.push(`${view}: ${each}`)
      await page.screenshot({ path: `${pictures}/${view}-light.png` })
      await page.emulateMedia({ colorScheme: "dark" })
      for (const each of await barriers(page, ["color-contrast"])) found.push(`${view}, dark: ${each}`)
      await page.screenshot({ path: `${pictures}/${view}-dark.png` })
      for (const [name, width, height] of [["twice the size", 700, 425], ["a phone", 390, 844]]) { // 1400 × 850 at 200 % is 700 × 425
        await page.setViewportSize({ width, height })
        await drawn()
        const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
        if (over > 0) found.push(`${view}: ${over} pixels too wide at ${name}`)
      }
      await page.setViewportSize({ width: 1400, height: 850 })
      await page.emulateMedia({ colorScheme: "light" })
    }
    expect(found.length === 0, found.join("\n"))
  },
}

// What is asked, and what is there when the view is whole.
const VIEWS = {
  overview: [{}, ".tile .figure"],
  ask: [{ where: "Region = 'italy'" }, ".facets li"],
  topics: [{ topic: ">" }, ".level"],
  publish: [{}, ".publish form"],
  consumers: [{}, ".journal tr"],
  cluster: [{}, ".picture circle"],
  archive: [{}, ".copied pre"],
}

for (let number = 0; number < 30; number++) {
  const region = ["italy", "hawaii", "iceland"][number % 3]
  const station = `${region.slice(0, 2).toUpperCase()}-${1 + (number % 4)}`
  const place = { lat: [37.7, 19.4, 64][number % 3] + (number % 4) / 10, lon: [15, -155.3, -19][number % 3] + (number % 5) / 10 }
  await describe(number, { Region: region, Station: station, Kind: number % 2 ? "tilt" : "so2", Floor: number % 5, Critical: number % 7 === 0, ...place })
  await read(number, 10 + number)
}
await run(scenarios, more[1])

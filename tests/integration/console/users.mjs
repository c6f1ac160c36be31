// Signing in, and what each user is offered.
import { PATIENCE, describe, expect, id, more, open, run, send, size } from "./page.mjs"

const secrets = JSON.parse(more[0])
const boss = { Authorization: `Bearer ${secrets.boss}` }

async function enter(page, user) {
  await page.locator("[name=secret]").fill(secrets[user])
  await page.locator("button", { hasText: "Sign in" }).click()
  await page.locator("button", { hasText: `Sign out ${user}` }).waitFor({ timeout: PATIENCE })
}

const views = (page) => page.locator("nav a").allTextContents()

const scenarios = {
  async "a wrong token is refused, the right one gets in, and out again"(page) {
    await open(page, "ask")
    await page.locator("[name=secret]").fill("wrong")
    await page.locator("button", { hasText: "Sign in" }).click()
    await page.locator(".login .problem").waitFor({ timeout: PATIENCE })
    await enter(page, "boss")
    await size(page, "3")
    const [cookie] = await page.context().cookies()
    expect(cookie.httpOnly && cookie.sameSite === "Strict", "the cookie is kept from scripts and from other sites")
    expect(!page.url().includes(secrets.boss), "no secret is in the address")
    expect((await page.evaluate(() => document.cookie)) === "", "no script sees the cookie")
    await page.locator("button", { hasText: "Sign out" }).click()
    await page.locator("[name=secret]").waitFor({ timeout: PATIENCE })
    await page.reload()
    await page.locator("[name=secret]").waitFor({ timeout: PATIENCE })
  },

  async "an administrator is offered everything"(page) {
    await open(page, "consumers")
    await enter(page, "boss")
    expect((await views(page)).includes("Publish"), "Publish is offered")
    await page.locator("h2", { hasText: "Connections of this node" }).waitFor({ timeout: PATIENCE })
  },

  async "a reader is not offered to publish, nor shown what others do"(page) {
    await open(page, "ask")
    await enter(page, "reader")
    expect(!(await views(page)).includes("Publish"), "Publish is not offered")
    await size(page, "2")
    await page.locator("[role=cell]", { hasText: /^tilt$/ }).waitFor({ timeout: PATIENCE })
    expect(!(await page.locator("main").textContent()).includes("secret"), "a producer that the reader may not receive is not on the page")
    await open(page, "topics")
    await page.locator(".live").waitFor({ timeout: PATIENCE })
    expect((await page.locator("#pattern").inputValue()) === "open.>", "the pattern is one that the reader may subscribe to")
    for (const view of ["consumers", "cluster"]) {
      await open(page, view)
      await page.locator("main", { hasText: "for users with the role" }).waitFor({ timeout: PATIENCE })
    }
    await open(page, "publish")
    await page.locator("nav").waitFor({ timeout: PATIENCE })
    expect((await page.locator(".publish").count()) === 0, "the address of the view does not bring it")
  },
}

for (const [number, topic, kind] of [[1, "open/one", "so2"], [2, "open/two", "tilt"], [3, "hidden/three", "secret"]]) {
  await describe(number, { Region: "italy", Kind: kind }, boss)
  await send("POST", `/v1/topics/${topic}`, "1", { ...boss, "Fumarole-Producer": id(number) })
}
await run(scenarios)

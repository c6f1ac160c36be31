// What recorders keep, which alarms stand, and how a query is put to history.
import { html, useEffect, useState } from "/vendor/preact-htm.js"
import { get } from "/api.js"
import { Copied } from "/copy.js"
import { link } from "/place.js"
import { usePoll } from "/poll.js"
import { ago, count, shown, size } from "/text.js"

const EVERY = 3

export function Archive({ me, visible, options, go }) {
  const [open, openProblem] = usePoll("/v1/topics/open/%3E", {}, EVERY, visible)
  const [consumers] = usePoll("/v1/consumers", {}, EVERY, visible, me.admin)
  const [connections] = usePoll("/v1/connections", {}, EVERY, visible, me.admin)
  const isLost = openProblem && openProblem.status !== 403
  const where = options.where ?? "Region = 'italy'"
  const [draft, setDraft] = useState(where)
  const [problem, setProblem] = useState(null)
  useEffect(() => setDraft(where), [where])
  useEffect(() => {
    const timer = setTimeout(() => get("/v1/explain", { where: draft }).then((told) => setProblem(told.view ? { message: "A view is of now; history takes its query." } : null), setProblem), 300)
    return () => clearTimeout(timer)
  }, [draft])
  const alarms = (open?.values ?? []).map((each) => ({ ...each, alarm: parsed(each) }))
  const waiting = new Map((connections?.connections ?? []).map((each) => [`${each.id} ${each.name}`.trim(), each.waiting_bytes]))
  const recorders = (consumers?.worst ?? []).filter((each) => /record/i.test(`${each.connection} ${each.group}`) && !each.pattern.startsWith("_INBOX."))
  return html`<section class="archive">
    <h1 class="hidden">Archive</h1>
    ${isLost && html`<p class="problem" role="status">connection lost, trying again…</p>`}
    <div class="pair"><article class="panel"><h2>Alarms that stand</h2>
      ${alarms.length ? html`<div class="scroll"><table><thead><tr><th>rule</th><th>producer</th><th class="value">value</th><th>since</th><th>topic</th></tr></thead><tbody>${alarms.map(({ topic, age: old, alarm }) => html`<tr key=${topic}><td class="problem">${shown(alarm.rule, 60)}</td>
        <td title=${shown(alarm.producer, 80)}>${shown(String(alarm.producer ?? "").slice(0, 8))}</td><td class="value">${shown(alarm.value, 40)}</td><td>${moment(alarm.since) || ago(old)}</td><td><a href=${link("topics", { at: topic })}><code>${shown(topic, 120)}</code></a></td></tr>`)}</tbody></table></div>`
      : html`<p class="quiet">${openProblem && !isLost ? html`They are on <code>open.></code>, which you may not subscribe to.` : html`${open ? "None." : ""} Rules raise them: <code>fumarole pipeline watch --rules rules.toml</code>`}</p>`}</article>
    ${me.admin && html`<article class="panel"><h2>Recorders</h2>${recorders.length ? html`<div class="scroll"><table><thead><tr><th>recorder</th><th>group</th><th>records</th><th class="value">received</th><th class="value">backlog</th><th class="value">dropped</th></tr></thead><tbody>
      ${recorders.map((each) => html`<tr><td>${shown(each.connection, 60)}</td><td>${shown(each.group, 60)}</td><td><code>${shown(each.query ?? each.pattern, 80)}</code></td><td class="value">${count(each.delivered)}</td>
        <td class="value">${waiting.has(each.connection) ? size(waiting.get(each.connection)) : ""}</td><td class=${each.dropped ? "value problem" : "value"}>${count(each.dropped)}</td></tr>`)}</tbody></table></div>
      <p class="quiet note">The backlog is what waits for a recorder at this node.</p>`
      : html`<p class="quiet">None is connected to this node. <code>fumarole record --archive archive</code> starts one.</p>`}</article>`}</div>
    <article class="panel"><h2>Run a query on history</h2>
      <form class="box" onSubmit=${(event) => (event.preventDefault(), go("archive", { where: draft }))}>
        <input aria-label="query" value=${draft} spellcheck=${false} autocomplete="off" onInput=${(event) => setDraft(event.target.value)} /></form>
      ${problem && html`<p class="problem" role="alert">${problem.position !== undefined && html`<code class="mark" aria-hidden="true">${" ".repeat(problem.position)}▲</code>`}${shown(problem.message, 300)}</p>`}
      <h3>At the prompt</h3><${Copied} lines=${atThePrompt(draft)} />
      <h3>In PySpark</h3><${Copied} lines=${inSpark(draft)} />
    </article>
  </section>`
}

function atThePrompt(where) {
  const word = `'${where.replaceAll("'", "'\\''")}'`
  return `fumarole pipeline rollup --archive archive --where ${word} --every '1 hour'
fumarole pipeline gaps --archive archive --where ${word}`
}

function inSpark(where) {
  return `from fumarole import pipeline
from fumarole.pipeline.jobs.spark import session

spark = session("history")
messages = pipeline.archive(spark, "archive", where=${JSON.stringify(where)})
pipeline.rollup(messages, "1 hour").show()`
}

// A time of the reader's clock.
function moment(text) {
  const time = new Date(text)
  return Number.isNaN(time.getTime()) ? shown(text, 40) : time.toLocaleString("sv-SE")
}

function parsed(message) {
  try {
    return JSON.parse(message.payload) || {}
  } catch {
    return {}
  }
}

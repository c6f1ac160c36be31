// What recorders keep, which alarms stand, and how a query is put to history.
import { html, useEffect, useState } from "/vendor/preact-htm.js"
import { get } from "/api.js"
import { age, shown } from "/text.js"

export function Archive({ me, visible }) {
  const [alarms, setAlarms] = useState({ values: [], note: "" })
  const [recorders, setRecorders] = useState([])
  const [where, setWhere] = useState("Region = 'italy'")
  useEffect(() => {
    if (!visible) return undefined
    const ask = () => {
      get("/v1/topics/open/%3E").then((told) => setAlarms({ values: told.values || [], note: "" }), (error) => setAlarms({ values: [], note: error.message }))
      if (me.admin)
        get("/v1/consumers").then(
          (told) => setRecorders(told.worst.filter((each) => /record/i.test(`${each.connection} ${each.group}`))),
          () => setRecorders([]),
        )
    }
    ask()
    const timer = setInterval(ask, 5000)
    return () => clearInterval(timer)
  }, [visible, me.admin])
  return html`<section class="archive">
    <h2>Alarms that stand</h2>
    ${alarms.values.length ? html`<table><thead><tr><th>topic</th><th>rule</th><th>producer</th><th>value</th><th>since</th></tr></thead><tbody>${alarms.values.map((each) => {
      const alarm = parsed(each)
      return html`<tr><td><code>${shown(each.topic, 120)}</code></td><td>${shown(alarm.rule, 60)}</td><td>${shown(alarm.producer, 40)}</td><td class="value">${shown(alarm.value, 40)}</td><td>${shown(alarm.since, 40) || age(each.age)}</td></tr>`
    })}</tbody></table>` : html`<p class="quiet">${alarms.note || "None."} Rules raise them: <code>fumarole pipeline watch --rules rules.toml</code></p>`}
    ${me.admin && html`<h2>Recorders</h2>${recorders.length ? html`<table><thead><tr><th>connection</th><th>group</th><th class="value">received</th><th class="value">dropped</th></tr></thead><tbody>
      ${recorders.map((each) => html`<tr><td>${shown(each.connection, 60)}</td><td>${shown(each.group, 60)}</td><td class="value">${each.delivered}</td><td class="value">${each.dropped}</td></tr>`)}</tbody></table>`
      : html`<p class="quiet">None is connected here. <code>fumarole record --archive archive '>'</code> starts one.</p>`}`}
    <h2>Run a query on history</h2>
    <label>Query <input value=${where} spellcheck=${false} onInput=${(event) => setWhere(event.target.value)} /></label>
    <pre tabindex="0">${onHistory(where)}</pre>
  </section>`
}

function onHistory(where) {
  const word = `'${where.replaceAll("'", "'\\''")}'`
  return `fumarole pipeline rollup --archive archive --where ${word} --every '1 hour'
fumarole pipeline gaps --archive archive --where ${word}

from fumarole import pipeline

readings = pipeline.read(spark, "archive", where=${JSON.stringify(where)})
pipeline.rollup(readings, "1 hour").show()`
}

function parsed(message) {
  try {
    return JSON.parse(message.payload) || {}
  } catch {
    return {}
  }
}

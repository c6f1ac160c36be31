// Who listens to what, what got lost, and the balance of groups over their members.
import { html, useRef, useState } from "/vendor/preact-htm.js"
import { call } from "/api.js"
import { usePoll } from "/poll.js"
import { ago, count, plural, shown, size } from "/text.js"

const SIGNS = { join: "+", leave: "−", refusal: "✗", will: "†" }

export function Consumers({ me, visible }) {
  const [told, problem] = usePoll("/v1/consumers", {}, 2, visible)
  const [open] = usePoll("/v1/connections", {}, 2, visible, me.admin)
  const [journal] = usePoll("/v1/journal", {}, 2, visible, me.admin)
  const rates = useRates(told)
  const [filter, setFilter] = useState("")
  const [said, setSaid] = useState("")
  if (problem) return html`<section><p class="problem" role="alert">${problem.message}</p></section>`
  if (!told) return html`<section><p class="quiet">Connecting…</p></section>`
  const wanted = (each) => !filter || JSON.stringify(each).toLowerCase().includes(filter.toLowerCase())
  const waiting = new Map((open?.connections ?? []).map((each) => [`${each.id} ${each.name}`.trim(), each.waiting_bytes]))
  const groups = new Map()
  for (const each of told.worst) if (each.group) groups.set(each.group, [...(groups.get(each.group) || []), each])
  async function cut(each) {
    if (!confirm(`Close connection ${each.id} (${each.door}, ${each.address})?`)) return
    try {
      await call("DELETE", `/v1/connections/${each.id}`)
      setSaid(`connection ${each.id} is closed`)
    } catch (error) {
      setSaid(error.message)
    }
  }
  return html`<section class="consumers">
    <div class="bar"><strong>${plural(told.consumers, "consumer")}</strong>
      <input type="search" placeholder="filter" aria-label="filter consumers" value=${filter} onInput=${(event) => setFilter(event.target.value)} />
      <span role="status">${said}</span>
      ${!me.admin && html`<span class="quiet">your own; those of others are for users with the role <code>admin</code></span>`}
      ${told.looked_at < told.consumers && html`<span class="quiet">${count(told.looked_at)} of them were looked at</span>`}</div>
    <div class="scroll"><table><thead><tr><th>connection</th><th>pattern or query</th><th>group</th><th class="value">delivered</th><th class="value">/s</th><th class="value">waiting</th><th class="value">conflated</th><th class="value">dropped</th></tr></thead>
      <tbody>${told.worst.filter(wanted).map((each) => html`<tr><td>${shown(each.connection, 60)}</td><td><code>${shown(each.query ?? each.pattern, 120)}</code></td>
        <td>${shown(each.group, 60)}</td><td class="value">${count(each.delivered)}</td>
        <td class="value">${rates.get(identity(each)) ?? ""}</td><td class="value">${waiting.has(each.connection) ? size(waiting.get(each.connection)) : ""}</td><td class="value">${each.conflated ? count(each.conflated) : ""}</td>
        <td class=${`value${each.dropped ? " problem" : ""}`}>${count(each.dropped)}</td></tr>`)}</tbody></table></div>
    ${groups.size > 0 && html`<h2>Groups</h2><div class="panels">${[...groups].map(([name, members]) => html`<article><h3>${shown(name, 60)}</h3>
      <${Balance} members=${members} /></article>`)}</div>`}
    ${me.admin && html`<h2>Connections of this node</h2>
    <div class="scroll"><table><thead><tr><th>id</th><th>door</th><th>name</th><th>address</th><th>namespace</th><th class="value">consumers</th><th class="value">waiting</th><th></th></tr></thead>
      <tbody>${(open?.connections ?? []).filter(wanted).slice(0, 500).map((each) => html`<tr><td>${each.id}</td><td>${each.door}</td><td>${shown(each.name, 60)}</td><td>${shown(each.address, 60)}</td>
        <td>${shown(each.namespace, 64)}</td><td class="value">${each.consumers ?? ""}</td><td class="value">${size(each.waiting_bytes)}</td>
        <td><button onClick=${() => cut(each)}>Cut off</button></td></tr>`)}</tbody></table></div>
    <h2>Joins, leaves, refusals and wills</h2>
    <div class="scroll journal"><table><thead><tr><th>age</th><th></th><th>client</th><th>namespace</th><th>reason</th></tr></thead>
      <tbody>${(journal?.events ?? []).filter(wanted).slice(0, 200).map((each) => html`<tr key=${each.number} class=${each.kind}><td class="quiet">${ago(each.age)}</td><td>${SIGNS[each.kind]} ${each.kind}</td>
        <td>${shown(each.client, 100)}</td><td>${shown(each.namespace, 64)}</td><td>${shown(each.text, 200)}</td></tr>`)}</tbody></table></div>`}
  </section>`
}

const identity = (each) => `${each.connection}\n${each.pattern}\n${each.query ?? ""}\n${each.group}`

// Messages a second of each consumer, from one answer to the next.
function useRates(told) {
  const before = useRef({ told: null, at: 0, delivered: new Map(), rates: new Map() }).current
  if (told && told !== before.told) {
    const now = performance.now()
    const delivered = new Map(told.worst.map((each) => [identity(each), each.delivered]))
    before.rates = new Map([...delivered].filter(([key]) => before.delivered.has(key))
      .map(([key, many]) => [key, count(Math.max(0, Math.round(((many - before.delivered.get(key)) * 1000) / (now - before.at))))]))
    Object.assign(before, { told, at: now, delivered })
  }
  return before.rates
}

function Balance({ members }) {
  const most = Math.max(1, ...members.map((each) => each.delivered))
  return html`<table><tbody>${members.map((each) => html`<tr><th scope="row">${shown(each.connection, 40)}</th><td class="value">${count(each.delivered)}</td>
    <td class="bar"><svg width="100%" height="12" aria-hidden="true"><rect height="12" rx="2" width=${`${(100 * each.delivered) / most}%`} /></svg></td></tr>`)}</tbody></table>`
}

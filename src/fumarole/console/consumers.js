// Who listens to what, what got lost, and the balance of groups over their members.
import { html, useState } from "/vendor/preact-htm.js"
import { call } from "/api.js"
import { usePoll } from "/poll.js"
import { count, plural, shown, size } from "/text.js"

export function Consumers({ me, visible }) {
  const [told, problem] = usePoll("/v1/consumers", {}, 2, visible, me.admin)
  const [open] = usePoll("/v1/connections", {}, 2, visible, me.admin)
  const [filter, setFilter] = useState("")
  const [said, setSaid] = useState("")
  if (!me.admin) return html`<section><p>Consumers and connections of others are for users with the role <code>admin</code>.</p></section>`
  if (problem) return html`<section><p class="problem" role="alert">${problem.message}</p></section>`
  if (!told) return html`<section><p class="quiet">Connecting…</p></section>`
  const wanted = (each) => !filter || JSON.stringify(each).toLowerCase().includes(filter.toLowerCase())
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
      ${told.looked_at < told.consumers && html`<span class="quiet">${count(told.looked_at)} of them were looked at</span>`}</div>
    <div class="scroll"><table><thead><tr><th>connection</th><th>pattern or query</th><th>group</th><th class="value">delivered</th><th class="value">conflated</th><th class="value">dropped</th></tr></thead>
      <tbody>${told.worst.filter(wanted).map((each) => html`<tr><td>${shown(each.connection, 60)}</td><td><code>${shown(each.query ?? each.pattern, 120)}</code></td>
        <td>${shown(each.group, 60)}</td><td class="value">${count(each.delivered)}</td><td class="value">${each.conflated ? count(each.conflated) : ""}</td>
        <td class=${`value${each.dropped ? " problem" : ""}`}>${count(each.dropped)}</td></tr>`)}</tbody></table></div>
    ${groups.size > 0 && html`<h2>Groups</h2><div class="panels">${[...groups].map(([name, members]) => html`<article><h3>${shown(name, 60)}</h3>
      <${Balance} members=${members} /></article>`)}</div>`}
    <h2>Connections of this node</h2>
    <div class="scroll"><table><thead><tr><th>id</th><th>door</th><th>name</th><th>address</th><th>namespace</th><th class="value">consumers</th><th class="value">waiting</th><th></th></tr></thead>
      <tbody>${(open?.connections ?? []).filter(wanted).slice(0, 500).map((each) => html`<tr><td>${each.id}</td><td>${each.door}</td><td>${shown(each.name, 60)}</td><td>${shown(each.address, 60)}</td>
        <td>${shown(each.namespace, 64)}</td><td class="value">${each.consumers ?? ""}</td><td class="value">${size(each.waiting_bytes)}</td>
        <td><button onClick=${() => cut(each)}>Cut off</button></td></tr>`)}</tbody></table></div>
  </section>`
}

function Balance({ members }) {
  const most = Math.max(1, ...members.map((each) => each.delivered))
  return html`<table><tbody>${members.map((each) => html`<tr><th scope="row">${shown(each.connection, 40)}</th><td class="value">${count(each.delivered)}</td>
    <td class="bar"><svg width="100%" height="12" aria-hidden="true"><rect height="12" rx="2" width=${`${(100 * each.delivered) / most}%`} /></svg></td></tr>`)}</tbody></table>`
}

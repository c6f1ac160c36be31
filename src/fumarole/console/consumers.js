// Who listens to what, what got lost, and the balance of groups over their members.
import { html, useEffect, useRef, useState } from "/vendor/preact-htm.js"
import { call } from "/api.js"
import { link } from "/place.js"
import { usePoll } from "/poll.js"
import { ago, count, plural, shown, size } from "/text.js"

const SIGNS = { join: "+", leave: "−", refusal: "✗", will: "†" }
const SORTS = { rate: "rate", delivered: "delivered", waiting: "waiting", dropped: "dropped" }
const SHOWN = 500
const PRIVATE = "_WHERE." // topics that only the server publishes, named in part

export function Consumers({ me, visible, options, go }) {
  const [told, problem] = usePoll("/v1/consumers", {}, 2, visible)
  const [open] = usePoll("/v1/connections", {}, 2, visible, me.admin)
  const [journal] = usePoll("/v1/journal", {}, 2, visible, me.admin)
  const seen = useRates(told)
  const [filter, setFilter] = useState("")
  const [said, setSaid] = useState("")
  const sort = SORTS[options.sort] ?? ""
  useShown(options.show, told)
  if (problem && !told) return html`<section><p class="problem" role="alert">${problem.message}</p></section>`
  if (!told) return html`<section><p class="quiet">Connecting…</p></section>`
  const wanted = (each) => !filter || JSON.stringify(each).toLowerCase().includes(filter.toLowerCase())
  const waiting = new Map((open?.connections ?? []).map((each) => [`${each.id} ${each.name}`.trim(), each.waiting_bytes]))
  const figures = told.worst.filter(wanted).map((each) => ({ ...each, ...seen.get(identity(each)), waiting: waiting.get(each.connection) }))
  if (sort) figures.sort((one, other) => (other[sort] ?? -1) - (one[sort] ?? -1))
  const groups = new Map()
  for (const each of told.worst) if (each.group) groups.set(each.group, [...(groups.get(each.group) || []), each])
  for (const name of Object.keys(told.groups ?? {})) if (!groups.has(name)) groups.set(name, [])
  const title = (name, text) => html`<th class="value" aria-sort=${sort === name ? "descending" : "none"}><button class="plain" onClick=${() => go("consumers", { sort: name })}>${text}${sort === name ? " ▾" : ""}</button></th>`
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
    <div class="bar"><strong class="count">${plural(told.consumers, "consumer")}</strong>
      ${problem && html`<span class="problem" role="status">connection lost, trying again…</span>`}
      <input type="search" placeholder="filter" aria-label="filter consumers" value=${filter} onInput=${(event) => setFilter(event.target.value)} />
      <span role="status">${said}</span>
      <span class="quiet">${me.admin ? html`of node ${shown(me.node, 40)}` : html`your own; those of others are for users with the role <code>admin</code>`}</span>
      ${told.looked_at < told.consumers && html`<span class="quiet">${count(told.looked_at)} of them were looked at</span>`}</div>
    ${told.worst.length === 0 ? html`<p class="panel quiet">None. One that subscribes appears here by itself.</p>` : html`<div class="panel scroll"><table><thead><tr><th>connection</th><th>pattern or query</th><th>group</th>${title("delivered", "delivered")}${title("rate", "/s")}${title("waiting", "waiting")}<th class="value">conflated</th>${title("dropped", "dropped")}<th></th></tr></thead>
      <tbody>${figures.map((each) => html`<tr key=${identity(each)}><td>${shown(each.connection, 60)}</td><td>${each.query
          ? html`<a href=${link("ask", { where: each.query })}><code>${shown(each.query, 160)}</code></a> ${each.pattern !== ">" && html`<span class="quiet">and topic <code>${shown(each.pattern, 120)}</code></span>`}`
          : each.pattern.startsWith(PRIVATE) ? html`<code>${shown(each.pattern, 20)}</code>` : html`<a href=${link("topics", { topic: each.pattern })}><code>${shown(each.pattern, 120)}</code></a>`}</td>
        <td>${shown(each.group, 60)}</td><td class="value">${count(each.delivered)}</td><td class="value">${each.rate === undefined ? "" : count(each.rate)}</td>
        <td class="value">${each.waiting === undefined ? "" : size(each.waiting)}</td><td class="value">${each.conflated ? count(each.conflated) : ""}</td>
        <td class=${`value${each.dropped ? " problem" : ""}`}>${count(each.dropped)}</td>
        <td class="quiet">${each.dropped > 0 && `its outbox was full, ${each.droppedAt ? `last ${ago((Date.now() - each.droppedAt) / 1000)}` : "before this view opened"}`}</td></tr>`)}</tbody></table></div>`}
    ${groups.size > 0 && html`<h2>Groups</h2><div class="panels">${[...groups].map(([name, members]) => html`<${Group} key=${name} name=${name} members=${members} nodes=${told.groups?.[name] ?? {}} own=${me.node} seen=${seen} />`)}</div>`}
    ${me.admin && html`<h2 id="connections">Connections of this node</h2>
    <div class="panel scroll"><table><thead><tr><th>id</th><th>door</th><th>name</th><th>address</th><th>namespace</th><th class="value">consumers</th><th class="value">waiting</th><th></th></tr></thead>
      <tbody>${byDoor(open?.connections ?? []).filter(wanted).slice(0, SHOWN).map((each) => html`<tr key=${each.id}><td>${each.id}</td><td>${each.door}</td><td>${shown(each.name, 60)}</td><td>${shown(each.address, 60)}</td>
        <td>${shown(each.namespace, 64)}</td><td class="value">${each.consumers ?? ""}</td><td class="value">${size(each.waiting_bytes)}</td>
        <td class="value"><button onClick=${() => cut(each)}>Cut off</button></td></tr>`)}</tbody></table></div>
    <h2 id="journal">Joins, leaves, refusals and wills</h2>
    <div class="panel scroll journal"><table><thead><tr><th>when</th><th></th><th>client</th><th>namespace</th><th>reason</th></tr></thead>
      <tbody>${(journal?.events ?? []).filter(wanted).slice(0, 200).map((each) => html`<tr key=${each.number} class=${each.kind}><td class="quiet">${ago(each.age)}</td><td class="kind">${SIGNS[each.kind]} ${each.kind}</td>
        <td>${shown(each.client, 100)}</td><td>${shown(each.namespace, 64)}</td><td>${shown(each.text, 200)}</td></tr>`)}</tbody></table>
      ${journal?.events.length === 0 && html`<p class="quiet">None since this node started.</p>`}</div>`}
  </section>`
}

// Requests of pages come and go all the time, so connections of the HTTP door come last.
function byDoor(connections) {
  return [...connections].sort((one, other) => (one.door === "http") - (other.door === "http") || other.id - one.id)
}

// The part of the page that the address names.
function useShown(name, told) {
  const [done] = useState({ name: "" })
  useEffect(() => {
    if (!name || !told || done.name === name) return
    done.name = name
    setTimeout(() => document.getElementById(name)?.scrollIntoView({ block: "start" }), 300)
  }, [name, told])
}

const identity = (each) => `${each.connection}\n${each.pattern}\n${each.query ?? ""}\n${each.group}`

// Of each consumer: messages a second, from one answer to the next, and when it was last seen to lose one.
function useRates(told) {
  const before = useRef({ told: null, at: 0, figures: new Map() }).current
  if (told && told !== before.told) {
    const now = performance.now()
    const figures = new Map()
    for (const each of told.worst) {
      const was = before.figures.get(identity(each))
      figures.set(identity(each), {
        was: each,
        rate: was && Math.max(0, Math.round(((each.delivered - was.was.delivered) * 1000) / (now - before.at))),
        droppedAt: was && each.dropped > was.was.dropped ? Date.now() : was?.droppedAt,
      })
    }
    Object.assign(before, { told, at: now, figures })
  }
  return before.figures
}

// Members here with what each got, and how many there are on other nodes.
function Group({ name, members, nodes, own, seen }) {
  const all = Object.values(nodes).reduce((sum, each) => sum + each, 0)
  const others = Object.entries(nodes).filter(([node]) => node !== own)
  return html`<article><h3>${shown(name, 60)} <span class="quiet">${plural(Math.max(all, members.length), "member")}</span></h3>
    ${members.length > 0 && html`<${Balance} members=${members} seen=${seen} />`}
    ${others.length > 0 && html`<p class="quiet">on ${others.map(([node, many]) => `${shown(node, 40)}: ${count(many)}`).join(", on ")}</p>`}</article>`
}

function Balance({ members, seen }) {
  const most = Math.max(1, ...members.map((each) => each.delivered))
  const total = Math.max(1, members.reduce((sum, each) => sum + each.delivered, 0))
  return html`<table class="balance"><tbody>${members.map((each) => html`<tr><th scope="row">${shown(each.connection, 40)}</th>
    <td><div class="share" style=${{ transform: `scaleX(${each.delivered / most})` }} aria-hidden="true"></div></td>
    <td class="value">${Math.round((100 * each.delivered) / total)} %</td><td class="value quiet">${seen.get(identity(each))?.rate === undefined ? "" : `${count(seen.get(identity(each)).rate)}/s`}</td></tr>`)}</tbody></table>`
}

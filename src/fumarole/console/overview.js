// How the namespace and its nodes are, now and in the last five minutes.
import { html, useMemo, useRef } from "/vendor/preact-htm.js"
import { Chart, Sparkline } from "/chart.js"
import { link } from "/place.js"
import { usePoll } from "/poll.js"
import { count, plural, shown, size } from "/text.js"

const EVERY = 2
const KEPT = 150 // five minutes

// Where a quota's use is seen.
const USED_BY = {
  connections: ["consumers", { show: "connections" }],
  consumers: ["consumers", { sort: "rate" }],
  standing_cost: ["consumers"],
  producers: ["ask"],
  metadata_bytes: ["ask"],
  retained_bytes: ["topics"],
  last_bytes: ["topics"],
}

const histories = new Map() // by namespace, so that five minutes stay while another view is shown

// Counters become rates, and everything that is a number keeps its last values.
function useRates(stats, namespace) {
  if (!histories.has(namespace)) histories.set(namespace, { before: null, at: 0, lines: new Map() })
  const kept = histories.get(namespace)
  const seen = useRef(null)
  if (stats && stats !== seen.current) {
    seen.current = stats
    const { before, at, lines } = kept
    const now = Date.now() / 1000
    const numbers = flat(stats)
    for (const [name, value] of Object.entries(numbers)) {
      if (!lines.has(name)) lines.set(name, { levels: [], rates: [] })
      const line = lines.get(name)
      line.levels.push([now, value])
      if (before && name in before && now - at > 0.1) line.rates.push([now, Math.max(0, (value - before[name]) / (now - at))])
      if (line.levels.length > KEPT) line.levels.shift()
      if (line.rates.length > KEPT) line.rates.shift()
    }
    kept.before = numbers
    kept.at = now
  }
  return kept.lines
}

function flat(value, name = "", found = {}) {
  for (const [key, each] of Object.entries(value)) {
    const path = name ? `${name}.${key}` : key
    if (typeof each === "number") found[path] = each
    else if (key === "nodes") for (const node of each) flat(node, `nodes.${node.node}`, found)
    else if (each && typeof each === "object" && !Array.isArray(each)) flat(each, path, found)
  }
  return found
}

export function Overview({ me, visible }) {
  const [stats, problem] = usePoll("/v1/stats", {}, EVERY, visible, me.admin)
  const [connections] = usePoll("/v1/connections", {}, 5, visible, me.admin)
  const [cluster] = usePoll("/v1/cluster", {}, 5, visible, me.admin)
  const [consumers] = usePoll("/v1/consumers", {}, 5, visible, me.admin)
  const doors = useMemo(() => counted(connections), [connections])
  const told = useMemo(() => (stats ? { ...stats, doors } : null), [stats])
  const lines = useRates(told, me.namespace)
  if (!me.admin) return html`<section><p>The overview shows what others do, and is for users with the role <code>admin</code>. <a href=${link("ask")}>Ask</a> and <a href=${link("topics")}>Topics</a> show what you may receive.</p></section>`
  if (problem && !stats) return html`<section><p class="problem" role="alert">${problem.message}</p></section>`
  if (!stats) return html`<section><p class="quiet">Connecting…</p></section>`
  const rate = (name) => lines.get(name)?.rates ?? []
  const level = (name) => lines.get(name)?.levels ?? []
  const refused = Object.keys(stats.quotas?.refused ?? {})
  const slow = (consumers?.worst ?? []).filter((each) => each.dropped > 0).slice(0, 8)
  const quotas = Object.entries(stats.quotas?.held ?? {})
  const names = stats.nodes?.map((each) => each.node) ?? [stats.node]
  const peers = new Map((cluster?.peers ?? []).map((peer) => [peer.node, peer]))
  const down = [...peers.values()].filter((peer) => !isUp(peer) && !names.includes(peer.node)).map((peer) => [peer.node, peer.state])
  const missing = [...down, ...(cluster?.missing ?? []).map((each) => [each.node || each.address, "missing"])]
  const toConsumers = (sort) => link("consumers", { sort })
  return html`<section class="overview">
    <h1 class="hidden">Overview</h1>
    ${problem && html`<p class="problem" role="alert">connection lost, trying again…</p>`}
    <div class="panel"><h2>Messages a second <span class="quiet">the last five minutes, from when this page opened</span></h2><${Chart} label="messages in and out each second, the last five minutes" height=${210} span=${300}
      series=${[{ name: "in", points: rate("received").slice() }, { name: "out", points: rate("delivered").slice() }]} /></div>
    <div class="tiles">
      <${Tile} title="messages in" unit="/s" line=${rate("received")} href=${link("topics")} />
      <${Tile} title="messages out" unit="/s" line=${rate("delivered")} href=${toConsumers("rate")} />
      <${Tile} title="producers" line=${level("producers")} href=${link("ask")} />
      <${Tile} title="consumers" line=${level("consumers")} href=${toConsumers("rate")} />
      <${Tile} title="connections" line=${level("connections")} href=${link("consumers", { show: "connections" })} />
      <${Tile} title="dropped" unit="/s" line=${rate("dropped.outbox full")} href=${toConsumers("dropped")} alarm=${true} />
      <${Tile} title="no consumer" unit="/s" line=${rate("dropped.no consumer")} href=${link("topics")} />
      <${Tile} title="refused" unit="/s" line=${rate("dropped.refused")} href=${link("consumers", { show: "journal" })} alarm=${true} />
    </div>
    <div class="panels">
      <article><h2>Nodes</h2><table><thead><tr><th></th><th></th><th class="value">in /s</th><th class="value">out /s</th></tr></thead><tbody>
        ${names.map((name) => html`<tr><th scope="row"><a href=${link("cluster")}>${shown(name, 40)}</a></th>
          <td class=${!peers.has(name) || isUp(peers.get(name)) ? "live" : "problem"}>${peers.has(name) ? shown(peers.get(name).state, 20) : "this node"}</td>
          ${["received", "delivered"].map((each) => html`<${NodeRate} name=${`${each} by ${name}`} line=${rate(stats.nodes ? `nodes.${name}.${each}` : each)} />`)}</tr>`)}
        ${missing.map(([name, state]) => html`<tr><th scope="row"><a href=${link("cluster")}>${shown(name, 40)}</a></th><td class="problem">${shown(state, 20)}</td><td></td><td></td></tr>`)}
      </tbody></table></article>
      <article><h2>Connections by door</h2><table><tbody>${Object.keys(doors).sort().map((door) => html`<${Line} key=${door} name=${door} line=${level(`doors.${door}`)} href=${link("consumers", { show: "connections" })} />`)}</tbody></table></article>
      <article><h2>Drops by reason</h2><table><tbody>
        ${Object.keys(stats.dropped).map((reason) => html`<${Line} key=${reason} name=${reason} line=${level(`dropped.${reason}`)} href=${reason === "no consumer" ? link("topics") : reason === "refused" ? link("consumers", { show: "journal" }) : toConsumers("dropped")} />`)}
        ${refused.map((name) => html`<${Line} key=${name} name=${`over quota: ${name.replaceAll("_", " ")}`} line=${level(`quotas.refused.${name}`)} href=${link("consumers", { show: "journal" })} />`)}</tbody></table></article>
      <article><h2>Slow consumers</h2>${slow.length ? html`<table><tbody>${slow.map((each) => html`<tr><th scope="row"><a href=${toConsumers("dropped")}>${shown(each.connection, 40)}</a></th>
        <td>${shown(each.query ?? each.pattern, 60)}</td><td class="value problem">${plural(each.dropped, "message")} dropped</td></tr>`)}</tbody></table>` : html`<p class="quiet">None: no consumer has lost a message.</p>`}</article>
      ${quotas.length > 0 && html`<article><h2>Quotas used</h2><table><tbody>${quotas.map(([name, each]) => html`<tr><th scope="row"><a href=${link(...(USED_BY[name] ?? ["consumers"]))}>${shown(name.replaceAll("_", " "), 40)}</a></th>
        <td><${Sparkline} values=${level(`quotas.held.${name}.used`).slice(-60).map(([, used]) => used)} label=${`${name.replaceAll("_", " ")}, recent`} /></td><${Quota} name=${name} quota=${each} /></tr>`)}</tbody></table></article>`}
    </div>
  </section>`
}

const latest = (line) => (line.length ? count(line.at(-1)[1]) : "–")

function counted(connections) {
  const doors = {}
  for (const each of connections?.connections ?? []) doors[each.door] = (doors[each.door] || 0) + 1
  return doors
}

function Line({ name, line, href }) {
  return html`<tr><th scope="row"><a href=${href}>${shown(name, 60)}</a></th><td><${Sparkline} values=${line.slice(-60).map(([, each]) => each)} label=${`${name}, recent`} /></td>
    <td class="value">${latest(line)}</td></tr>`
}

function NodeRate({ name, line }) {
  return html`<td class="value">${latest(line)}<${Sparkline} values=${line.slice(-60).map(([, each]) => each)} label=${`${name}, recent`} /></td>`
}

export function isUp(peer) {
  return peer.state === "live"
}

const NEARLY = 0.8 // of a quota

function Quota({ name, quota }) {
  const { used, most } = quota
  const text = (value) => (name.includes("bytes") ? size(value) : count(value))
  return html`<td class=${most > 0 && used > NEARLY * most ? "value problem" : "value"}>${text(used)}${most > 0 && html`<span class="quiet"> of ${text(most)}</span>`}</td>`
}

function Tile({ title, line = [], unit = "", href, alarm = false }) {
  const value = line.at(-1)?.[1]
  return html`<a class=${`tile${alarm && value > 0 ? " alarm" : ""}`} href=${href}><span class="title">${title}</span>
    <span class="figure">${value === undefined ? "–" : count(value)}${unit && html`<small>${unit}</small>`}</span>
    <${Sparkline} values=${line.slice(-60).map(([, each]) => each)} label=${`${title}, recent`} /></a>`
}

// How the namespace and its nodes are, now and in the last five minutes.
import { html, useEffect, useRef, useState } from "/vendor/preact-htm.js"
import { Chart, Sparkline } from "/chart.js"
import { usePoll } from "/poll.js"
import { count, plural, shown, size } from "/text.js"

const EVERY = 2
const KEPT = 150 // five minutes

// Counters become rates, and everything that is a number keeps its last values.
function useRates(stats) {
  const kept = useRef({ before: null, at: 0, lines: new Map() })
  const [, redraw] = useState(0)
  useEffect(() => {
    if (!stats) return
    const { before, at, lines } = kept.current
    const now = Date.now() / 1000
    const numbers = flat(stats)
    for (const [name, value] of Object.entries(numbers)) {
      if (!lines.has(name)) lines.set(name, { levels: [], rates: [] })
      const line = lines.get(name)
      line.levels.push([now, value])
      if (before && name in before && now > at) line.rates.push([now, Math.max(0, (value - before[name]) / (now - at))])
      if (line.levels.length > KEPT) line.levels.shift()
      if (line.rates.length > KEPT) line.rates.shift()
    }
    kept.current.before = numbers
    kept.current.at = now
    redraw((each) => each + 1)
  }, [stats])
  return kept.current.lines
}

function flat(value, name = "", found = {}) {
  for (const [key, each] of Object.entries(value)) {
    const path = name ? `${name}.${key}` : key
    if (typeof each === "number") found[path] = each
    else if (each && typeof each === "object" && !Array.isArray(each)) flat(each, path, found)
  }
  return found
}

export function Overview({ me, visible }) {
  const [stats, problem] = usePoll("/v1/stats", {}, EVERY, visible, me.admin)
  const [connections] = usePoll("/v1/connections", {}, 5, visible, me.admin)
  const [cluster] = usePoll("/v1/cluster", {}, 5, visible, me.admin)
  const [consumers] = usePoll("/v1/consumers", {}, 5, visible, me.admin)
  const lines = useRates(stats)
  if (!me.admin) return html`<section><p>The overview shows what others do, and is for users with the role <code>admin</code>. Ask, Topics and Publish are yours.</p></section>`
  if (problem) return html`<section><p class="problem" role="alert">${problem.message}</p></section>`
  if (!stats) return html`<section><p class="quiet">Connecting…</p></section>`
  const rate = (name) => lines.get(name)?.rates ?? []
  const doors = new Map()
  for (const each of connections?.connections ?? []) doors.set(each.door, (doors.get(each.door) || 0) + 1)
  const drops = [...Object.entries(stats.dropped), ...Object.entries(stats.quotas?.refused ?? {}).map(([name, many]) => [`over quota: ${name}`, many])]
  const slow = (consumers?.worst ?? []).filter((each) => each.dropped > 0).slice(0, 8)
  const quotas = Object.entries(stats.quotas?.held ?? {})
  return html`<section class="overview">
    <h1 class="hidden">Overview</h1>
    <${Chart} label="messages in and out each second, the last five minutes" height=${200} span=${300}
      series=${[{ name: "in /s", points: rate("received").slice() }, { name: "out /s", points: rate("delivered").slice() }]} />
    <div class="tiles">
      <${Tile} title="messages in" unit="/s" line=${rate("received")} href="#topics" />
      <${Tile} title="messages out" unit="/s" line=${rate("delivered")} href="#consumers" />
      <${Tile} title="connections" line=${lines.get("connections")?.levels} href="#consumers" />
      <${Tile} title="consumers" line=${lines.get("consumers")?.levels} href="#consumers" />
      <${Tile} title="producers" line=${lines.get("producers")?.levels} href="#ask" />
      <${Tile} title="dropped" unit="/s" line=${rate("dropped.outbox full")} href="#consumers" alarm=${true} />
      <${Tile} title="without consumer" unit="/s" line=${rate("dropped.no consumer")} href="#topics" />
      <${Tile} title="refused" unit="/s" line=${rate("dropped.refused")} href="#consumers" alarm=${true} />
    </div>
    <div class="panels">
      <article><h2>Nodes</h2><table><tbody>
        <tr><th scope="row">${shown(stats.node, 40)}</th><td class="live">this node</td><td>${shown(stats.version, 20)}</td></tr>
        ${(cluster?.peers ?? []).map((peer) => html`<tr><th scope="row"><a href="#cluster">${shown(peer.node, 40)}</a></th>
          <td class=${isUp(peer) ? "live" : "problem"}>${shown(peer.state, 40)}</td><td></td></tr>`)}
      </tbody></table></article>
      <article><h2>Connections by door</h2><table><tbody>${[...doors].sort().map(([door, many]) => html`<tr><th scope="row">${door}</th><td class="value">${count(many)}</td></tr>`)}</tbody></table></article>
      ${drops.length > 0 && html`<article><h2>Drops by reason</h2><table><tbody>${drops.map(([reason, many]) => html`<tr><th scope="row">${shown(reason, 60)}</th><td class="value">${count(many)}</td></tr>`)}</tbody></table></article>`}
      <article><h2>Slow consumers</h2>${slow.length ? html`<table><tbody>${slow.map((each) => html`<tr><th scope="row"><a href="#consumers">${shown(each.connection, 40)}</a></th>
        <td>${shown(each.pattern, 60)}</td><td class="value problem">${plural(each.dropped, "message")} dropped</td></tr>`)}</tbody></table>` : html`<p class="quiet">None: no consumer has lost a message.</p>`}</article>
      ${quotas.length > 0 && html`<article><h2>Quotas used</h2><table><tbody>${quotas.map(([name, each]) => html`<tr><th scope="row">${shown(name.replaceAll("_", " "), 40)}</th>
        <${Quota} name=${name} quota=${each} /></tr>`)}</tbody></table></article>`}
    </div>
  </section>`
}

export function isUp(peer) {
  return peer.state === "live"
}

function Quota({ name, quota }) {
  const { used, most } = quota
  const text = (value) => (name.includes("bytes") ? size(value) : count(value))
  return html`<td class="value" title=${most ? `${text(used)} of ${text(most)}` : ""}>${text(used)}</td><td class="quiet">${most > 0 && `of ${text(most)}`}</td>
    <td>${most > 0 && html`<meter min="0" max=${most} high=${0.8 * most} value=${used} aria-label=${name}></meter>`}</td>`
}

function Tile({ title, line = [], unit = "", href, alarm = false }) {
  const value = line.at(-1)?.[1]
  return html`<a class=${`tile${alarm && value > 0 ? " alarm" : ""}`} href=${href}><span class="title">${title}</span>
    <span class="figure">${value === undefined ? "–" : count(value)}${unit && html`<small>${unit}</small>`}</span>
    <${Sparkline} values=${line.slice(-60).map(([, each]) => each)} label=${`${title}, recent`} /></a>`
}

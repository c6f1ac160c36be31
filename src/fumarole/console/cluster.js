// The nodes, the links between this one and the others, and what is missing.
import { html, useEffect, useRef, useState } from "/vendor/preact-htm.js"
import { isUp } from "/overview.js"
import { usePoll } from "/poll.js"
import { age, count, number, shown, size } from "/text.js"

const WIDE = 760
const NARROW = 400
const HIGH = 320
const LOW = 150 // of up to three nodes: they are on one line

export function ClusterView({ me, visible }) {
  const [told, problem] = usePoll("/v1/cluster", {}, 2, visible, me.admin)
  if (!me.admin) return html`<section><p>The cluster's nodes and addresses are for users with the role <code>admin</code>.</p></section>`
  if (problem && !told) return html`<section><p class="problem" role="alert">${problem.message}</p></section>`
  if (!told) return html`<section><p class="quiet">Connecting…</p></section>`
  const peers = told.peers ?? []
  const missing = told.missing ?? []
  const all = 1 + peers.length + missing.length
  const up = 1 + peers.filter(isUp).length
  return html`<section class="cluster">
    <div class="bar"><strong class="count">${all === 1 ? "1 node" : `${up} of ${all} nodes`}</strong> ${all > 1 && html`<span class=${up === all ? "live" : "problem"}>${up === all ? "connected" : "some are missing"}</span>`}
      ${told.cluster === null && html`<span class="quiet">It is on its own. <code>fumarole demo --nodes 3</code> shows a cluster of three.</span>`}
      ${problem && html`<span class="problem" role="status">connection lost, trying again…</span>`}
      ${told.cluster && html`<span class="quiet">cluster ${shown(told.cluster, 60)}${told.unconfirmed > 0 ? `, ${count(told.unconfirmed)} changes not yet confirmed everywhere` : ""}</span>`}</div>
    <div class="panel"><${Picture} own=${told.node} peers=${peers} missing=${missing} /></div>
    <div class="panel scroll"><table><thead><tr><th>node</th><th>state</th><th>address</th><th>version</th><th class="value">round trip</th><th class="value">silent for</th><th class="value">behind</th><th class="value">waiting</th><th class="value">consumers</th><th class="value">sent</th><th class="value">received</th><th class="value">dropped</th></tr></thead><tbody>
      <tr><td>${shown(told.node, 60)}</td><td class="live">this node</td><td>${shown(told.address, 60)}</td><td>${shown(told.version, 20)}</td><td></td><td></td><td></td><td></td><td class="value">${told.consumers}</td><td></td><td></td><td></td></tr>
      ${peers.map((peer) => html`<tr key=${peer.node}><td>${shown(peer.node, 60)}</td><td class=${isUp(peer) ? "live" : "problem"}>${shown(peer.state, 60)}</td>
        <td>${shown(peer.address, 60)}</td><td>${shown(peer.version, 20)}</td><td class="value">${roundTrip(peer)}</td><td class=${`value${peer.silence > 1 ? " problem" : ""}`}>${peer.silence === undefined ? "" : `${peer.silence.toFixed(1)} s`}</td>
        <td class="value">${figure(peer.behind)}</td><td class="value">${peer.outbox === undefined ? "" : size(peer.outbox)}</td><td class="value">${figure(peer.consumers)}</td><td class="value">${figure(peer.forwarded)}</td><td class="value">${figure(peer.received)}</td>
        <td class="value" title=${drops(peer)}>${figure(Object.values(peer.dropped ?? {}).reduce((sum, each) => sum + each, 0))}</td></tr>`)}
      ${missing.map((each) => html`<tr><td>${shown(each.node, 60)}</td><td class="problem">missing</td><td>${shown(each.address, 60)}</td><td class="problem" colspan="9">${why(each)}</td></tr>`)}
    </tbody></table></div>
  </section>`
}

const figure = (value) => (value === undefined ? "" : count(value))
const drops = (peer) => Object.entries(peer.dropped ?? {}).map(([reason, many]) => `${reason}: ${count(many)}`).join(", ")

// Why a node is missing, and since when, in the server's words.
const why = (each) => [shown(each.why, 160), each.away === undefined ? "" : `for ${age(each.away)}`].filter(Boolean).join(", ")

function roundTrip(peer) {
  return peer.round_trip === undefined ? "" : `${number(Number((peer.round_trip * 1000).toFixed(2)))} ms`
}

// This node in the middle, the others around it.
function Picture({ own, peers, missing }) {
  const around = [...peers.map((peer) => ({ name: peer.node, up: isUp(peer), trip: roundTrip(peer) })), ...missing.map((each) => ({ name: each.node || each.address, up: false, trip: "" }))]
  const [isNarrow, setIsNarrow] = useState(false)
  const place = useRef(null)
  useEffect(() => {
    const resized = new ResizeObserver(([{ contentRect }]) => setIsNarrow(contentRect.width < 1.3 * NARROW))
    resized.observe(place.current)
    return () => resized.disconnect()
  }, [])
  const [width, height, longest] = [isNarrow ? NARROW : WIDE, around.length > 2 ? HIGH : LOW, isNarrow ? 14 : 24]
  const [x, y] = [width / 2, height / 2 - 8]
  const at = (index) => {
    const angle = Math.PI + (2 * Math.PI * index) / around.length
    return [x + (width / 2 - 90) * Math.cos(angle), y + 110 * Math.sin(angle)]
  }
  const node = (name, up, here, there, more) => html`<g><circle class=${up ? "up" : "down"} cx=${here} cy=${there} r=${more ? 24 : 19} />
    <text text-anchor="middle" x=${here} y=${there + 42}>${name.length > longest ? `${shown(name.slice(0, longest - 1))}…` : shown(name)}${more}</text></g>`
  return html`<svg class="picture" ref=${place} viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${`${1 + around.filter((each) => each.up).length} of ${1 + around.length} nodes are connected`}>
    ${around.map((each, index) => {
      const [toX, toY] = at(index)
      return html`<g><line class=${each.up ? "up" : "down"} x1=${x} y1=${y} x2=${toX} y2=${toY} /><text class="trip" text-anchor="middle" x=${x + (toX - x) * 0.55} y=${y + (toY - y) * 0.55 - 8}>${each.trip}</text></g>`
    })}
    ${around.map((each, index) => node(each.name, each.up, ...at(index), ""))}
    ${node(own, true, x, y, " (this node)")}
  </svg>`
}

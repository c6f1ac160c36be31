// The nodes, the links between this one and the others, and what is missing.
import { html } from "/vendor/preact-htm.js"
import { isUp } from "/overview.js"
import { usePoll } from "/poll.js"
import { number, shown } from "/text.js"

const WIDTH = 520
const HEIGHT = 320

export function ClusterView({ me, visible }) {
  const [told, problem] = usePoll("/v1/cluster", {}, 2, visible, me.admin)
  if (!me.admin) return html`<section><p>The cluster's nodes and addresses are for users with the role <code>admin</code>.</p></section>`
  if (problem) return html`<section><p class="problem" role="alert">${problem.message}</p></section>`
  if (!told) return html`<section><p class="quiet">Connecting…</p></section>`
  const peers = told.peers ?? []
  const missing = told.missing ?? []
  return html`<section class="cluster">
    <${Picture} own=${told.node} peers=${peers} missing=${missing} />
    <div class="scroll"><table><thead><tr><th>node</th><th>state</th><th>address</th><th class="value">round trip</th><th>more</th></tr></thead><tbody>
      <tr><td>${shown(told.node, 60)}</td><td class="live">this node</td><td></td><td></td><td>${shown(told.version, 20)}</td></tr>
      ${peers.map((peer) => html`<tr><td>${shown(peer.node, 60)}</td><td class=${isUp(peer) ? "live" : "problem"}>${shown(peer.state, 60)}</td>
        <td>${shown(peer.address, 60)}</td><td class="value">${roundTrip(peer)}</td><td class="quiet">${rest(peer)}</td></tr>`)}
      ${missing.map((each) => html`<tr><td>${shown(each.name ?? each, 60)}</td><td class="problem">missing</td><td>${shown(each.address, 60)}</td><td></td><td class="quiet">${shown(each.why, 160)}</td></tr>`)}
    </tbody></table></div>
    ${told.cluster === null && html`<p class="quiet">This node is on its own. <code>fumarole demo --nodes 3</code> shows a cluster of three.</p>`}
  </section>`
}

const SHOWN = new Set(["node", "address", "state", "round_trip"])

function roundTrip(peer) {
  return `${number(Number((peer.round_trip * 1000).toFixed(3)))} ms`
}

function rest(peer) {
  return Object.entries(peer)
    .filter(([key, value]) => !SHOWN.has(key) && (typeof value === "number" || typeof value === "string") && value !== "")
    .map(([key, value]) => `${key.replaceAll("_", " ")} ${typeof value === "number" ? number(value) : shown(value, 40)}`)
    .join(", ")
}

function Picture({ own, peers, missing }) {
  const all = [{ name: own, up: true, own: true }, ...peers.map((peer) => ({ name: peer.node, up: isUp(peer), trip: roundTrip(peer) })), ...missing.map((each) => ({ name: each.name ?? String(each), up: false }))]
  const at = (index) => {
    const angle = (2 * Math.PI * index) / all.length - Math.PI / 2
    const wide = all.length === 1 ? 0 : 1
    return [WIDTH / 2 + wide * 170 * Math.cos(angle), HEIGHT / 2 + wide * 110 * Math.sin(angle)]
  }
  const [x, y] = at(0)
  return html`<svg class="picture" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label=${`${all.filter((each) => each.up).length} of ${all.length} nodes are connected`}>
    ${all.slice(1).map((each, index) => {
      const [toX, toY] = at(index + 1)
      return html`<g><line class=${each.up ? "up" : "down"} x1=${x} y1=${y} x2=${toX} y2=${toY} /><text x=${(x + toX) / 2 + 6} y=${(y + toY) / 2 - 6}>${each.trip || ""}</text></g>`
    })}
    ${all.map((each, index) => {
      const [here, there] = at(index)
      return html`<g><circle class=${each.up ? "up" : "down"} cx=${here} cy=${there} r="22" /><text text-anchor="middle" x=${here} y=${there + 40}>${shown(each.name, 24)}${each.own ? " (this)" : ""}</text></g>`
    })}
  </svg>`
}

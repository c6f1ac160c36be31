// One producer: its metadata, a chart of its values, and why it is in the set of the query, or why not.
import { html, useEffect, useLayoutEffect, useRef, useState } from "/vendor/preact-htm.js"
import { call, get } from "/api.js"
import { Chart } from "/chart.js"
import { Presence } from "/table.js"
import { ago, number, shown } from "/text.js"

const POINTS = 120

export function ProducerPage({ id, row, where, close, go, me, visible }) {
  const [told, setTold] = useState(null)
  const [why, setWhy] = useState(null)
  const [problem, setProblem] = useState("")
  const closing = useRef(null)
  const asked = useRef(0)
  const own = useRef([]) // values that came since the page is open, where the table has none
  useLayoutEffect(() => { // before the page is shown: no key goes elsewhere
    const before = document.activeElement
    closing.current.focus()
    return () => before?.focus()
  }, [])
  useEffect(() => {
    if (!visible) return undefined
    let stopped = false
    const ask = async () => {
      try {
        const one = await get(`/v1/producers/${id}`)
        const tree = where.trim() ? await get("/v1/explain", { where, id }) : null
        if (!stopped) {
          const now = Date.now()
          if (typeof one.value === "number" && one.age * 1000 < now - asked.current) own.current = [...own.current, [now / 1000 - one.age, one.value]].slice(-POINTS)
          asked.current = now
          setTold(one)
          setWhy(tree)
          setProblem("")
        }
      } catch (error) {
        if (!stopped) setProblem(error.message)
      }
    }
    ask()
    const timer = setInterval(ask, 2000)
    return () => {
      stopped = true
      clearInterval(timer)
    }
  }, [id, where, visible])
  useLayoutEffect(() => {
    const pressed = (event) => event.key === "Escape" && close()
    addEventListener("keydown", pressed)
    return () => removeEventListener("keydown", pressed)
  }, [])
  async function forget() {
    if (!confirm(`Forget producer ${id}? It leaves every set, and all its metadata is deleted.`)) return
    try {
      await call("DELETE", `/v1/producers/${id}`)
      close()
    } catch (error) {
      setProblem(error.message)
    }
  }
  const points = row?.points.length > own.current.length ? row.points : own.current
  return html`<aside class="producer" role="dialog" aria-label=${`producer ${id}`}>
    <header><h2>${told?.metadata.Name ?? told?.metadata.Station ? html`<span class="name">${shown(told.metadata.Name ?? told.metadata.Station, 60)}</span>` : ""}${id}</h2><button ref=${closing} onClick=${close} aria-label="close">✕</button></header>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${told && html`
      <p class="latest">${told.value === undefined ? html`<span class="quiet">no value yet</span>` : html`<strong>${number(told.value)}</strong>`}
        ${told.metadata.Unit !== undefined && html` <span class="quiet">${shown(told.metadata.Unit, 20)}</span>`}
        ${told.age !== undefined && html` <span class="quiet">${ago(told.age)} on ${shown(told.topic, 120)}</span>`}
        <${Presence} metadata=${told.metadata} named=${true} /></p>
      ${points.length > 1 && html`<${Chart} label="recent values" series=${[{ name: "value", points: points.slice() }]} height=${160} />`}
      <h3>Metadata</h3>
      <table><tbody>${Object.entries(told.metadata).filter(([key]) => key !== "_online").slice(0, 500).map(([key, value]) => html`<tr><th scope="row">${shown(key, 80)}</th><td>${shown(value)}</td></tr>`)}</tbody></table>
      ${why && html`<h3>Why ${why.in_set ? "it is in the set" : "it is not in the set"}</h3><${Tree} node=${why.tree} />`}
      <p class="actions">
        <button onClick=${() => go("topics", { at: told.topic || `readings.${id}` })}>Its topic</button>
        ${me.may_publish && html`<button onClick=${() => go("publish", { id })}>Describe it</button>`}
        ${me.may_publish && html`<button onClick=${forget}>Forget this producer</button>`}
      </p>`}
  </aside>`
}

const SIGNS = { true: "✓", false: "✗", unknown: "?", message: "…" }

function reason({ truth, terms }) {
  if (truth === "message") return " each message decides"
  if (truth !== "unknown") return ""
  return terms ? " unknown" : " unknown: the key is missing, or its value is of another kind"
}

export function Tree({ node }) {
  return html`<div class="tree">
    <span class=${`truth ${node.truth}`} title=${node.truth}>${SIGNS[node.truth] || ""}</span> <code>${shown(node.text, 300)}</code>
    <span class="quiet">${reason(node)}</span>
    ${node.terms && html`<div class="terms">${node.terms.map((term) => html`<${Tree} node=${term} />`)}</div>`}
  </div>`
}

// A view (`select Region, count(*) where …`): a table, with bars that move where there is a count.
import { html, useEffect, useState } from "/vendor/preact-htm.js"
import { Stream } from "/api.js"
import { CopyAs } from "/copy.js"
import { count, keyName, plural, quoted, shown } from "/text.js"

const MOST = 500
const ROW = 34

export function View({ text, view, canonical, visible, go }) {
  const [rows, setRows] = useState(new Map())
  const [state, setState] = useState({ name: "connecting" })
  const [tab, setTab] = useState(view.counted ? "bars" : "table")
  useEffect(() => {
    if (!visible) return undefined
    let all = new Map()
    let fresh = true
    const stream = new Stream({ where: text }, {
      view: ({ New, Del }) => {
        all = fresh ? new Map() : new Map(all)
        fresh = false
        for (const each of Del) all.delete(JSON.stringify(each))
        for (const each of New) all.set(JSON.stringify(each), each)
        setRows(all)
      },
      state: (name, problem) => {
        if (name === "open") fresh = true
        setState({ name, problem })
      },
    })
    return () => stream.stop()
  }, [text, visible])
  const keys = (entry) => (view.counted ? entry.slice(0, -1) : entry)
  const list = [...rows.values()]
  list.sort((one, other) => (view.counted && other.at(-1) - one.at(-1)) || (JSON.stringify(one) < JSON.stringify(other) ? -1 : 1))
  const some = list.slice(0, MOST).map((entry, at) => ({ id: JSON.stringify(keys(entry)), entry, at }))
  const most = view.counted ? Math.max(1, ...list.map((each) => each.at(-1))) : 1
  const total = view.counted ? list.reduce((sum, each) => sum + each.at(-1), 0) : 0
  // The producers of one entry, as a query.
  const ask = (entry) => {
    const tests = keys(entry).map((value, at) => {
      const name = keyName(view.keys[at])
      return value === null ? `${name} is null` : `${name} = ${quoted(value)}`
    })
    const rest = tests.join(" and ")
    go("ask", { where: /\bor\b/i.test(canonical) ? `(${canonical}) and ${rest}` : `${canonical} and ${rest}` })
  }
  const layout = { gridTemplateColumns: `repeat(${view.keys.length}, minmax(4rem, 11rem))${view.counted ? ` 5rem ${tab === "bars" ? "minmax(6rem, 1fr)" : ""}` : ""}` }
  const name = (value) => (value === null ? html`<i class="quiet">none</i>` : shown(value, 120))
  // The order of elements stays while entries change places, so that they are seen to move.
  const still = [...some].sort((one, other) => (one.id < other.id ? -1 : 1))
  return html`<div class="view">
    <div class="bar"><strong class="count" data-testid="size">${plural(list.length, "row")}</strong>
      ${view.counted && html`<span class="quiet">${plural(total, "producer")}</span>`}
      ${state.name === "open" ? html`<span class="live">live</span>` : html`<span class="problem" role="status">${state.name === "lost" ? "connection lost, trying again…" : state.problem?.message || "connecting…"}</span>`}
      ${view.counted && html`<span class="tabs" role="tablist" aria-label="shown as">${["bars", "table"].map((each) => html`<button role="tab" aria-selected=${tab === each} onClick=${() => setTab(each)}>${each}</button>`)}</span>`}
      <${CopyAs} where=${text} /></div>
    <div class="table" role="table" aria-label="rows of the view">
      <div class="head" role="row" style=${layout}>${view.keys.map((key) => html`<div role="columnheader"><span>${shown(key, 40)}</span></div>`)}
        ${view.counted && html`<div role="columnheader" class="value"><span>producers</span></div>${tab === "bars" && html`<div role="columnheader"><span class="hidden">share</span></div>`}`}</div>
      <div class="entries" role="rowgroup" style=${{ height: some.length ? `${some.length * ROW}px` : "auto" }}>
        ${still.map(({ id, entry, at }) => html`<div key=${id} role="row" class="entry" style=${{ ...layout, transform: `translateY(${at * ROW}px)` }}>
          ${keys(entry).map((value, number) => html`<div role="cell">${number ? name(value) : html`<button class="plain" title="the producers of this row" onClick=${() => ask(entry)}>${name(value)}</button>`}</div>`)}
          ${view.counted && html`<div role="cell" class="value">${count(entry.at(-1))}</div>
            ${tab === "bars" && html`<div role="cell" aria-hidden="true"><div class="share" style=${{ transform: `scaleX(${entry.at(-1) / most})` }}></div></div>`}`}
        </div>`)}
        ${list.length === 0 && html`<p class="quiet none">${state.name === "open" ? "No producer matches now." : ""}</p>`}
      </div>
    </div>
    ${list.length > MOST && html`<p class="quiet">and ${count(list.length - MOST)} more</p>`}
  </div>`
}

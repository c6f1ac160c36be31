// The rows of producers. Only those on the screen are elements, so 50,000 of them scroll like 50.
import { html, useEffect, useRef, useState } from "/vendor/preact-htm.js"
import { Sparkline } from "/chart.js"
import { age, number, shown } from "/text.js"

const ROW = 32
const NARROW_ROW = 56 // with the metadata below
const NARROW = 700
const OVER = 8
const FIXED = 470 // pixels of what is not metadata
const COLUMN = 108

export function Table({ rows, columns, sort, setSort, open, pinned, toggle, look, nothing }) {
  const [top, setTop] = useState(0)
  const [size, setSize] = useState({ width: 1000, height: 600 })
  const place = useRef(null)
  useEffect(() => {
    const resized = new ResizeObserver(([{ contentRect }]) => setSize({ width: contentRect.width, height: contentRect.height }))
    resized.observe(place.current)
    return () => resized.disconnect()
  }, [])
  const narrow = size.width < NARROW
  const tall = narrow ? NARROW_ROW : ROW
  const first = Math.max(0, Math.floor(top / tall) - OVER)
  const some = rows.slice(first, first + Math.ceil(size.height / tall) + 2 * OVER)
  const ids = some.filter((row) => !row.gone).map((row) => row.id)
  useEffect(() => look(ids), [ids.join()])
  const shownColumns = narrow ? [] : columns.slice(0, Math.max(1, Math.floor((size.width - FIXED) / COLUMN)))
  const title = (by, text, numeric = false) => html`<div role="columnheader" class=${numeric ? "value" : ""} aria-sort=${sort.by === by ? (sort.down ? "descending" : "ascending") : "none"}>
    <button title=${`sort by ${shown(text, 60)}`} onClick=${() => setSort({ by, down: sort.by === by && !sort.down })}>${shown(text, 24)}${sort.by === by ? (sort.down ? " ▾" : " ▴") : ""}</button></div>`
  const layout = narrow
    ? { gridTemplateColumns: "1.6rem minmax(6rem, 1fr) 5.5rem 96px" }
    : { gridTemplateColumns: `1.6rem 7.8rem 6.2rem 104px 4.6rem ${shownColumns.length ? `repeat(${shownColumns.length}, minmax(5rem, 1fr))` : "1fr"}` }
  return html`<div class=${narrow ? "table narrow" : "table"} role="table" aria-label="producers" aria-rowcount=${rows.length + 1}>
    <div class="head" role="row" style=${layout}>
      <div role="columnheader"><span class="hidden">pin</span></div>
      ${title(" id", "producer")}${title(" value", "value", true)}<div role="columnheader"><span>recent</span></div>${!narrow && title(" age", "age")}
      ${shownColumns.map(({ key, numeric }) => title(key, key, numeric))}
    </div>
    <div class="rows" ref=${place} tabindex="0" role="rowgroup" onScroll=${(event) => setTop(event.target.scrollTop)}
      style=${{ height: rows.length ? `${rows.length * tall + 1}px` : "auto" }}>
      <div class="all" style=${{ height: `${rows.length * tall}px` }}>
        ${some.map((row, at) => html`<div key=${row.id} role="row" aria-rowindex=${first + at + 2} class=${lookOf(row)}
            style=${{ ...layout, top: `${(first + at) * tall}px`, height: `${tall}px` }}>
          <div role="cell"><input type="checkbox" title="pin to the chart" aria-label=${`pin ${row.id}`} checked=${pinned.includes(row.id)} onChange=${() => toggle(row.id)} /></div>
          <div role="cell" class="id"><${Presence} metadata=${row.metadata} /><button onClick=${() => open(row.id)} title=${row.id}>${row.gone ? "− " : row.came ? "+ " : ""}${row.id.slice(0, 8)}</button></div>
          <div role="cell" class="value">${row.value === null ? "" : number(row.value)}</div>
          <div role="cell"><${Sparkline} values=${row.points.map(([, value]) => value)} /></div>
          ${!narrow && html`<div role="cell" class="quiet">${row.at ? age((Date.now() - row.at) / 1000) : ""}</div>`}
          ${narrow
            ? html`<div role="cell" class="more quiet">${columns.map(({ key }) => row.metadata?.[key] !== undefined && html`<span title=${shown(key, 80)}>${cell(row.metadata[key])}</span>`)}</div>`
            : shownColumns.map(({ key, numeric }) => html`<div role="cell" class=${numeric ? "value" : ""}>${cell(row.metadata?.[key])}</div>`)}
        </div>`)}
      </div>
      ${rows.length === 0 && html`<div class="quiet none">${nothing}</div>`}
    </div>
  </div>`
}

function lookOf(row) {
  return `row${row.gone ? " gone" : row.came ? " came" : ""}${row.metadata?._online === false ? " offline" : ""}`
}

function cell(value) {
  return typeof value === "number" ? number(value) : shown(value, 80)
}

// Has the producer a connection that is open? The server keeps this as the key `_online`.
export function Presence({ metadata, named = false }) {
  const state = metadata?._online
  if (state === undefined) return null
  const text = state ? "online" : "offline"
  return html`<span class=${state ? "presence on" : "presence off"} title=${text}><span class=${named ? "" : "hidden"}>${text}</span></span>`
}

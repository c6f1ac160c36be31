// A query, and the producers that match it as they come and go.
import { html, useEffect, useMemo, useRef, useState } from "/vendor/preact-htm.js"
import { get, Problem } from "/api.js"
import { Chart, Sparkline } from "/chart.js"
import { CopyAs } from "/copy.js"
import { Facets } from "/facets.js"
import { Map as ProducerMap, places } from "/map.js"
import { ProducerPage } from "/producer.js"
import { ProducerSet } from "/producer_set.js"
import { QueryBox } from "/query_box.js"
import { age, number, plural, shown } from "/text.js"
import { View } from "/view.js"

const ROW = 30
const OVER = 8
const IS_VIEW = /^\s*select\s/i

export function Ask({ options, go, visible, me }) {
  const where = options.where ?? ""
  const [draft, setDraft] = useState(where)
  const [problem, setProblem] = useState(null)
  const [explained, setExplained] = useState(null)
  const [asked, setAsked] = useState(null)
  useEffect(() => {
    setDraft(where)
    run(where)
  }, [where])

  // The last good answer stays while the text is wrong: a query is tried before it takes the place of the other.
  async function run(text) {
    if (IS_VIEW.test(text)) {
      setProblem(null)
      setExplained(null)
      setAsked(text)
      return
    }
    try {
      setExplained(text.trim() ? await get("/v1/explain", { where: text }) : null)
      setProblem(null)
      setAsked(text)
    } catch (error) {
      setProblem(error)
    }
  }
  function submit(text) {
    if (text === where) run(text)
    else if (IS_VIEW.test(text)) go("ask", { where: text })
    else
      get("/v1/explain", { where: text.trim() || EVERY_PRODUCER }).then(
        () => go("ask", text.trim() ? { where: text } : {}),
        setProblem,
      )
  }
  return html`<section class="ask">
    <${QueryBox} text=${draft} change=${setDraft} submit=${submit} problem=${problem} />
    ${explained && html`<p class="explained">
      read as <code>${shown(explained.canonical)}</code>${explained.keys.length > 0 && html`, which depends on
      ${explained.keys.map((key) => html` <code>${shown(key)}</code>`)}`}${explained.message.length > 0 && html` and on each
      message's ${explained.message.map((key) => html` <code>${shown(key)}</code>`)}`}</p>`}
    ${asked !== null &&
    (IS_VIEW.test(asked)
      ? html`<${View} key=${asked} text=${asked} visible=${visible} />`
      : html`<${Answer} key=${asked} where=${asked} visible=${visible} go=${go} me=${me} refine=${(term) => {
          const text = asked.trim() ? `${/\bor\b/i.test(asked) ? `(${asked})` : asked} and ${term}` : term
          go("ask", { where: text })
        }} />`)}
  </section>`
}

const EVERY_PRODUCER = "_ is null or has _"

function Answer({ where, visible, refine, go, me }) {
  const [, redraw] = useState(0)
  const [set, setSet] = useState(null)
  const [paused, setPaused] = useState(false)
  const [every, setEvery] = useState(1)
  const [filter, setFilter] = useState("")
  const [sort, setSort] = useState({ by: "", down: false })
  const [open, setOpen] = useState("")
  const [pinned, setPinned] = useState([])
  const [tab, setTab] = useState("table")
  const onScreen = useRef([])
  const query = where.trim() || EVERY_PRODUCER

  useEffect(() => {
    if (!visible) return undefined
    let drawing = 0
    const made = new ProducerSet(query, () => {
      drawing ||= setTimeout(() => {
        drawing = 0
        redraw((before) => before + 1)
      }, 100)
    })
    setSet(made)
    return () => {
      clearTimeout(drawing)
      made.stop()
    }
  }, [query, visible])

  useEffect(() => {
    if (!set || !visible) return undefined
    const timer = setInterval(() => set.refresh([...new Set([...onScreen.current, ...pinned, ...(open ? [open] : [])])]), every * 1000)
    return () => clearInterval(timer)
  }, [set, every, pinned, open, visible])

  const columns = useColumns(set)
  const rows = useMemo(() => (set ? sorted(set, filter, sort) : []), [set, set?.version, filter, sort])
  if (!set) return html`<p class="quiet">Connecting…</p>`
  const toggle = (id) => setPinned(pinned.includes(id) ? pinned.filter((each) => each !== id) : [...pinned, id].slice(-8))
  const onMap = places(rows)
  return html`<div class="answer">
    <div class="bar">
      <strong aria-live="polite" data-testid="size">${plural(set.size, "producer")}</strong>
      <${State} set=${set} />
      <button aria-pressed=${paused} onClick=${() => {
        set.pause(!paused)
        setPaused(!paused)
      }}>${paused ? `Go on (${plural(set.held.length, "change")} waiting)` : "Pause"}</button>
      <label>at most once in <input type="range" min="0.5" max="10" step="0.5" value=${every}
        onInput=${(event) => setEvery(Number(event.target.value))} aria-label="seconds between two values of a row" /> ${every} s</label>
      <input type="search" placeholder="filter rows" value=${filter} aria-label="filter rows"
        onInput=${(event) => setFilter(event.target.value)} />
      <span class="tabs" role="tablist">
        ${["table", ...(onMap.length ? ["map"] : []), "count"].map((each) => html`<button role="tab" aria-selected=${tab === each}
          onClick=${() => setTab(each)}>${each}</button>`)}
      </span>
      ${where.trim() && html`<${CopyAs} where=${where} />`}
    </div>
    ${pinned.length > 0 && html`<${Pinned} set=${set} ids=${pinned} clear=${() => setPinned([])} />`}
    <div class="columns">
      <${Facets} where=${query} version=${set.size} visible=${visible && !paused} refine=${refine} />
      ${tab === "map" && html`<${ProducerMap} places=${onMap} open=${setOpen} />`}
      ${tab === "count" && html`<${Chart} label="producers over time" series=${[{ name: "producers", points: set.sizes.slice() }]} />`}
      ${tab === "table" && html`<${Table} rows=${rows} columns=${columns} sort=${sort} setSort=${setSort} open=${setOpen}
        pinned=${pinned} toggle=${toggle} onScreen=${onScreen} />`}
    </div>
    ${open && html`<${ProducerPage} id=${open} row=${set.rows.get(open)} where=${where} close=${() => setOpen("")} go=${go} me=${me} visible=${visible} />`}
  </div>`
}

function State({ set }) {
  if (set.state === "open") return set.problem ? html`<span class="problem">${set.problem.message}</span>` : html`<span class="live">live</span>`
  if (set.problem instanceof Problem) return html`<span class="problem" role="alert">${set.problem.message}</span>`
  return html`<span class="problem" role="status">${set.state === "lost" ? "connection lost, trying again…" : "connecting…"}</span>`
}

// The keys that most rows have, at most six; the others are on the producer's page.
function useColumns(set) {
  return useMemo(() => {
    const counts = new Map()
    let looked = 0
    for (const row of set ? set.rows.values() : []) {
      if (row.metadata) for (const key of Object.keys(row.metadata)) if (key !== "_online") counts.set(key, (counts.get(key) || 0) + 1)
      if (++looked === 200) break
    }
    return [...counts].sort((one, other) => other[1] - one[1] || (one[0] < other[0] ? -1 : 1)).slice(0, 6).map(([key]) => key)
  }, [set, set && Math.min(set.rows.size, 200), set && set.missing.size === 0])
}

function sorted(set, filter, { by, down }) {
  const wanted = filter.toLowerCase()
  const rows = [...set.rows.values()].filter(
    (row) => !wanted || row.id.includes(wanted) || (row.metadata && JSON.stringify(row.metadata).toLowerCase().includes(wanted)),
  )
  if (!by) return rows
  const of = by === " value" ? (row) => row.value : by === " id" ? (row) => row.id : by === " age" ? (row) => -row.at : (row) => row.metadata?.[by]
  const order = (one, other) => {
    const a = of(one)
    const b = of(other)
    if (a === b) return one.id < other.id ? -1 : 1
    if (a === undefined || a === null) return 1
    if (b === undefined || b === null) return -1
    return (typeof a === typeof b ? a < b : typeof a === "number") ? -1 : 1
  }
  rows.sort(order)
  return down ? rows.reverse() : rows
}

function Table({ rows, columns, sort, setSort, open, pinned, toggle, onScreen }) {
  const [top, setTop] = useState(0)
  const [height, setHeight] = useState(600)
  const place = useRef(null)
  useEffect(() => {
    const resized = new ResizeObserver(([entry]) => setHeight(entry.contentRect.height))
    resized.observe(place.current)
    return () => resized.disconnect()
  }, [])
  const first = Math.max(0, Math.floor(top / ROW) - OVER)
  const some = rows.slice(first, first + Math.ceil(height / ROW) + 2 * OVER)
  onScreen.current = some.filter((row) => !row.gone).map((row) => row.id)
  const title = (by, text) => html`<div role="columnheader" aria-sort=${sort.by === by ? (sort.down ? "descending" : "ascending") : "none"}>
    <button onClick=${() => setSort({ by, down: sort.by === by && !sort.down })}>${shown(text, 24)}${sort.by === by ? (sort.down ? " ▾" : " ▴") : ""}</button></div>`
  const layout = { gridTemplateColumns: `2.2rem 7.5rem 6rem 100px 4.5rem repeat(${columns.length}, minmax(5rem, 1fr))` }
  return html`<div class="table" role="table" aria-label="producers" aria-rowcount=${rows.length + 1}>
    <div class="head" role="row" style=${layout}>
      <div role="columnheader"><span class="hidden">pin</span></div>
      ${title(" id", "producer")}${title(" value", "value")}<div role="columnheader">recent</div>${title(" age", "age")}
      ${columns.map((key) => title(key, key))}
    </div>
    <div class="rows" ref=${place} tabindex="0" role="rowgroup" onScroll=${(event) => setTop(event.target.scrollTop)}>
      <div class="all" style=${{ height: `${rows.length * ROW}px` }}>
        ${some.map((row, at) => html`<div key=${row.id} role="row" aria-rowindex=${first + at + 2}
            class=${`row${row.gone ? " gone" : row.came ? " came" : ""}`} style=${{ ...layout, top: `${(first + at) * ROW}px` }}>
          <div role="cell"><input type="checkbox" aria-label=${`pin ${row.id}`} checked=${pinned.includes(row.id)} onChange=${() => toggle(row.id)} /></div>
          <div role="cell" class="id"><button onClick=${() => open(row.id)} title=${row.id}>${row.gone ? "− " : row.came ? "+ " : ""}${row.id.slice(0, 8)}</button></div>
          <div role="cell" class="value">${row.value === null ? "" : number(row.value)}</div>
          <div role="cell"><${Sparkline} values=${row.points.map(([, value]) => value)} /></div>
          <div role="cell" class="quiet">${online(row)}${row.at ? age((Date.now() - row.at) / 1000) : ""}</div>
          ${columns.map((key) => html`<div role="cell">${cell(row.metadata?.[key])}</div>`)}
        </div>`)}
      </div>
      ${rows.length === 0 && html`<p class="quiet none">No producer matches now. One that comes to match appears here by itself.</p>`}
    </div>
  </div>`
}

function cell(value) {
  return typeof value === "number" ? number(value) : shown(value, 80)
}

function online(row) {
  const state = row.metadata?._online
  if (state === undefined) return ""
  return html`<span class=${state ? "dot on" : "dot off"} title=${state ? "online" : "offline"}></span>`
}

function Pinned({ set, ids, clear }) {
  const series = ids
    .map((id) => set.rows.get(id))
    .filter((row) => row && !row.gone)
    .map((row) => ({ name: row.id.slice(0, 8), points: row.points.slice() }))
  return html`<div class="pinned"><${Chart} label="pinned producers" series=${series} height=${180} />
    <button onClick=${clear}>Unpin all</button></div>`
}

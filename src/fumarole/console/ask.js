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
import { Suggestions } from "/suggestions.js"
import { Table } from "/table.js"
import { count, keyName, plural, shown } from "/text.js"
import { View } from "/view.js"
import { WhyNot } from "/why_not.js"

const IS_VIEW = /^\s*select\s/i
const EVERY_PRODUCER = "_ is null or has _"

export function Ask({ options, go, visible, me }) {
  const where = options.where ?? ""
  const [draft, setDraft] = useState(where)
  const [problem, setProblem] = useState(null)
  const [answer, setAnswer] = useState(null)
  useEffect(() => {
    setDraft(where)
    explain(where, (explained) => setAnswer({ asked: where, explained }))
  }, [where])

  // The last good answer stays while the text is wrong: a query is tried before it takes the place of the other.
  const turn = useRef(0)
  async function explain(text, then) {
    const mine = ++turn.current
    try {
      const explained = text.trim() ? await get("/v1/explain", { where: text }) : null
      if (mine !== turn.current) return
      setProblem(null)
      then(explained)
    } catch (error) {
      if (mine === turn.current) setProblem(error)
    }
  }
  function submit(text) {
    explain(text, (explained) => (text === where ? setAnswer({ asked: text, explained }) : go("ask", text.trim() ? { where: text } : {})))
  }
  const refine = (term) => {
    const asked = answer.asked.trim()
    go("ask", { where: asked ? `${/\bor\b/i.test(asked) ? `(${asked})` : asked} and ${term}` : term })
  }
  const { asked, explained } = answer ?? {}
  return html`<section class="ask">
    <${QueryBox} text=${draft} change=${setDraft} submit=${submit} problem=${problem} />
    ${!draft.trim() && html`<${Suggestions} take=${(text) => go("ask", { where: text })} />`}
    ${explained?.view && draft.trim() && html`<${Explained} explained=${explained} />`}
    ${answer && (explained?.view
      ? html`<${View} key=${asked} text=${asked} view=${explained.view} canonical=${explained.canonical} visible=${visible} go=${go} />`
      : html`<${Answer} key=${asked} where=${asked} explained=${explained} visible=${visible} go=${go} me=${me} refine=${refine} />`)}
  </section>`
}

function Explained({ explained }) {
  const list = (names) => names.map((name, at) => html`${at > 0 ? ", " : ""}<code>${shown(name, 60)}</code>`)
  const { view } = explained
  const select = view ? `SELECT ${[...view.keys.map(keyName), ...(view.counted ? ["count(*)"] : [])].join(", ")} WHERE ` : ""
  return html`<p class="explained">Read as <code>${shown(select + explained.canonical)}</code>${explained.keys.length > 0 && html` · depends on ${list(explained.keys)}`}
    ${explained.message.length > 0 && html` · asks each message for ${list(explained.message)}`}</p>`
}

function useSet(query, decides, visible) {
  const [, redraw] = useState(0)
  const [set, setSet] = useState(null)
  useEffect(() => {
    if (!visible) return undefined
    let drawing = 0
    const made = new ProducerSet(query, decides, () => {
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
  return set
}

function Answer({ where, explained, visible, refine, go, me }) {
  const [paused, setPaused] = useState(false)
  const [every, setEvery] = useState(1)
  const [filter, setFilter] = useState("")
  const [sort, setSort] = useState({ by: "", down: false })
  const [open, setOpen] = useState("")
  const [pinned, setPinned] = useState([])
  const [tab, setTab] = useState("table")
  const onScreen = useRef([])
  const query = where.trim() || EVERY_PRODUCER
  const decides = explained?.set ?? ""
  const set = useSet(query, decides, visible)

  const columns = useColumns(set)
  const goesByValue = sort.by === " value" || sort.by === " age"
  const rows = useMemo(() => (set ? sorted(set, filter, sort) : []), [set, set?.version, goesByValue && set?.news, filter, sort])
  const onMap = useMemo(() => places(rows), [rows])
  const watch = () => {
    const seen = tab === "map" ? onMap.slice(0, 200).map(({ row }) => row.id) : tab === "table" ? onScreen.current : []
    set?.watch([...new Set([...seen, ...pinned, ...(open ? [open] : [])])], every)
  }
  useEffect(watch)
  if (!set) return html`<p class="quiet">Connecting…</p>`
  const toggle = (id) => setPinned(pinned.includes(id) ? pinned.filter((each) => each !== id) : [...pinned, id].slice(-8))
  return html`<div class="answer">
    ${where.trim() && html`<div class="bar about">${explained && html`<${Explained} explained=${explained} />`}
      <span class="tools"><${WhyNot} set=${set} open=${setOpen} /><${CopyAs} where=${where} /><button onClick=${() => go("archive", { where })}>On history…</button></span></div>`}
    <div class="bar">
      <strong class="count" aria-live="polite" data-testid="size">${plural(set.size, "producer")}</strong>
      <${Sparkline} values=${set.sizes.slice(-120).map(([, size]) => size)} label="producers, the last minute" />
      <${Changes} set=${set} />
      <${State} set=${set} />
      <span class="tabs" role="tablist" aria-label="shown as">
        ${["table", ...(onMap.length ? ["map"] : []), "count"].map((each) => html`<button role="tab" aria-selected=${tab === each}
          onClick=${() => setTab(each)}>${each}</button>`)}
      </span>
      <button aria-pressed=${paused} onClick=${() => {
        set.pause(!paused)
        setPaused(!paused)
      }}>${paused ? `Go on (${plural(set.held.length, "change")} waiting)` : "Pause"}</button>
      <label title="The server sends the newest value of each row on the screen, at most once in this time.">at most once in
        <input type="range" min="0.5" max="10" step="0.5" value=${every} onInput=${(event) => setEvery(Number(event.target.value))}
          aria-label="seconds between two values of a row" /> <span class="period">${every} s</span></label>
      <input class="filter" type="search" placeholder="filter rows" value=${filter} aria-label="filter rows"
        onInput=${(event) => setFilter(event.target.value)} />
    </div>
    ${pinned.length > 0 && html`<${Pinned} set=${set} ids=${pinned} clear=${() => setPinned([])} />`}
    <div class="columns">
      <${Facets} where=${decides} text=${where} version=${set.changes} visible=${visible && !paused} refine=${refine} />
      ${tab === "map" && html`<${ProducerMap} places=${onMap} open=${setOpen} />`}
      ${tab === "count" && html`<div class="panel"><${Chart} label="producers over time" height=${320} series=${[{ name: "producers", points: set.sizes.slice() }]} fromZero=${true} /></div>`}
      ${tab === "table" && html`<${Table} rows=${rows} columns=${columns} sort=${sort} setSort=${setSort} open=${setOpen}
        pinned=${pinned} toggle=${toggle} look=${(ids) => {
          onScreen.current = ids
          watch()
        }} nothing=${nothing(set, where)} />`}
    </div>
    ${open && html`<${ProducerPage} id=${open} row=${set.rows.get(open)} where=${where} close=${() => setOpen("")} go=${go} me=${me} visible=${visible} />`}
  </div>`
}

// What came and went in the last seconds.
function Changes({ set }) {
  const { coming, going } = set
  return html`<span class="changes" aria-hidden="true">${coming > 0 && html`<span class="plus">+${count(coming)}</span>`}${going > 0 && html`<span class="minus">−${count(going)}</span>`}</span>`
}

function State({ set }) {
  if (set.state === "open") return set.problem ? html`<span class="problem">${set.problem.message}</span>` : html`<span class="live">live</span>`
  if (set.problem instanceof Problem) return html`<span class="problem" role="alert">${set.problem.message}</span>`
  return html`<span class="problem" role="status">${set.state === "lost" ? "connection lost, trying again…" : "connecting…"}</span>`
}

function nothing(set, where) {
  if (set.state !== "open") return ""
  if (where.trim()) return "No producer matches now. One that comes to match appears here by itself."
  return html`No producer is known here yet. One that sends a reading appears by itself; this sends one:
    <pre tabindex="0">curl -H 'Fumarole-Producer: ${SOME_PRODUCER}' \\
     -H 'Fumarole-Metadata: {"Region": "italy", "Kind": "temperature"}' \\
     -d 21.5 ${location.origin}/v1/topics/volcanoes/italy/etna</pre>`
}

const SOME_PRODUCER = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"

const LOOKED_AT = 200 // rows

// The keys that most rows have; the others are on the producer's page. Places are for the map.
function useColumns(set) {
  const described = []
  let looked = 0
  for (const row of set ? set.rows.values() : []) {
    if (row.metadata) described.push(row)
    if (++looked === LOOKED_AT) break
  }
  return useMemo(() => {
    const counts = new Map()
    const numbers = new Map()
    for (const { metadata } of described) {
      for (const [key, value] of Object.entries(metadata)) {
        if (key === "_online") continue
        counts.set(key, (counts.get(key) || 0) + 1)
        if (typeof value === "number") numbers.set(key, (numbers.get(key) || 0) + 1)
      }
    }
    const isPlace = ([key]) => key === "lat" || key === "lon"
    const ranked = [...counts].sort((one, other) => isPlace(one) - isPlace(other) || other[1] - one[1]).filter((each, at) => at < 3 || !isPlace(each))
    const usual = ranked.filter(([, many], at) => at < 2 || many >= described.length / 5)
    return usual.slice(0, 8).map(([key, many]) => ({ key, numeric: numbers.get(key) === many }))
  }, [set, described.length, looked])
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

function Pinned({ set, ids, clear }) {
  const series = ids
    .map((id) => set.rows.get(id))
    .filter((row) => row && !row.gone)
    .map((row) => ({ name: nameOf(row), points: row.points.slice() }))
  return html`<div class="panel pinned"><${Chart} label="pinned producers" series=${series} height=${180} />
    <button onClick=${clear}>Unpin all</button></div>`
}

function nameOf({ id, metadata }) {
  const name = metadata?.Name ?? metadata?.Station
  return name === undefined ? id.slice(0, 8) : `${shown(name, 30)} ${id.slice(0, 4)}`
}

// The tree of topics: what the page heard since it opened, and the last and retained messages that the server keeps. Its
// levels are opened one by one. A topic or pattern shows its messages as they come.
import { html, useEffect, useMemo, useRef, useState } from "/vendor/preact-htm.js"
import { Stream, call, get, topicPath } from "/api.js"
import { Chart } from "/chart.js"
import { CopyAs } from "/copy.js"
import { age, count, number, plural, shown } from "/text.js"

const KEPT = 200
const SHOWN_CHILDREN = 200
const MOST_TOPICS = 20000

// Topics by word. `messages` counts what was heard here and below.
class Level {
  constructor() {
    this.children = new Map()
    this.messages = 0
    this.last = null
  }

  add(topic, message) {
    let level = this
    const words = topic.split(".")
    level.messages++
    for (const word of words) {
      let child = level.children.get(word)
      if (!child) level.children.set(word, (child = new Level()))
      child.messages++
      level = child
    }
    level.last = message
  }
}

export function Topics({ options, go, visible, me }) {
  const pattern = options.topic ?? ">"
  const [draft, setDraft] = useState(pattern)
  useEffect(() => setDraft(pattern), [pattern])
  const { root, messages, state, heard, last, refresh } = useMessages(pattern, visible)
  const isPattern = /[*>]/.test(pattern)
  return html`<section class="topics">
    <form class="query" onSubmit=${(event) => {
        event.preventDefault()
        go("topics", { topic: draft.trim() || ">" })
      }}>
      <label for="pattern">Topic or pattern</label>
      <div class="box"><input id="pattern" value=${draft} spellcheck=${false} autocomplete="off" placeholder="volcanoes.>"
        onInput=${(event) => setDraft(event.target.value)} /><button class="first">Listen</button></div>
      ${state.problem && html`<p class="problem" role="alert">${state.problem.position !== undefined && html`<code class="mark">${" ".repeat(state.problem.position)}▲</code>`}${state.problem.message}</p>`}
    </form>
    <div class="bar"><strong data-testid="heard">${plural(heard, "message")}</strong> heard since this view opened
      ${state.name === "open" ? html`<span class="live">live</span>` : html`<span class="problem">${state.name}</span>`}
      ${state.dropped > 0 && html`<span class="problem">${plural(state.dropped, "message")} did not fit the connection</span>`}
      <${CopyAs} topic=${pattern} /></div>
    ${last.note && html`<p class="quiet">${last.note}</p>`}
    <div class="columns">
      <div class="levels" role="tree" aria-label="topics">
        <${Branch} level=${root} path="" open=${true} go=${go} chosen=${pattern} />
      </div>
      <${Messages} messages=${messages} isPattern=${isPattern} topic=${pattern} last=${last} me=${me} refresh=${refresh} />
    </div>
  </section>`
}

function useMessages(pattern, visible) {
  const [, redraw] = useState(0)
  const kept = useRef(null)
  const [state, setState] = useState({ name: "connecting", dropped: 0 })
  const [last, setLast] = useState({ values: [], note: "" })
  if (kept.current?.pattern !== pattern) kept.current = { pattern, root: new Level(), messages: [], heard: 0, topics: 0 }
  const refresh = () =>
    get(`/v1/topics/${topicPath(pattern)}`).then(
      (told) => {
        const values = told.values || told.messages || []
        setLast({ values, note: told.note || "" })
        for (const each of values) kept.current.root.add(each.topic, each)
        redraw((before) => before + 1)
      },
      (error) => setLast({ values: [], note: error.status === 501 ? error.message : "" }),
    )
  useEffect(() => {
    if (!visible) return undefined
    let drawing = 0
    const here = kept.current
    const take = (message) => {
      here.heard++
      if (here.root.children.size < MOST_TOPICS) here.root.add(message.topic, message)
      here.messages.push(message)
      if (here.messages.length > KEPT) here.messages.shift()
      drawing ||= setTimeout(() => {
        drawing = 0
        redraw((before) => before + 1)
      }, 200)
    }
    const options = { topic: pattern, every: /[*>]/.test(pattern) ? "1s" : undefined }
    const on = {
      message: take,
      reading: take,
      dropped: ({ total }) => setState((before) => ({ ...before, dropped: total })),
      state: (name, problem) => {
        if (problem?.status === 501 && options.every) {
          options.every = undefined
          stream.stop()
          stream = new Stream(options, on)
        } else setState((before) => ({ ...before, name, problem: problem?.status === 400 || problem?.status === 403 ? problem : null }))
      },
    }
    let stream = new Stream(options, on)
    refresh()
    return () => {
      clearTimeout(drawing)
      stream.stop()
    }
  }, [pattern, visible])
  const here = kept.current
  return { root: here.root, messages: here.messages, heard: here.heard, state, last, refresh }
}

function Branch({ level, path, open, go, chosen }) {
  const [unfolded, setUnfolded] = useState(new Set())
  const [filter, setFilter] = useState("")
  const names = [...level.children.keys()].filter((name) => name.includes(filter))
  if (!open) return null
  const toggle = (name) => {
    const next = new Set(unfolded)
    if (!next.delete(name)) next.add(name)
    setUnfolded(next)
  }
  return html`<ul role="group">
    ${level.children.size > SHOWN_CHILDREN && html`<li><input type="search" aria-label="filter words" placeholder=${`filter ${count(level.children.size)} words`}
      value=${filter} onInput=${(event) => setFilter(event.target.value)} /></li>`}
    ${names.sort().slice(0, SHOWN_CHILDREN).map((name) => {
      const child = level.children.get(name)
      const topic = path ? `${path}.${name}` : name
      const isOpen = unfolded.has(name)
      const below = child.children.size
      return html`<li key=${name} role="treeitem" aria-expanded=${below ? isOpen : undefined} aria-selected=${chosen === topic}>
        <div class="level">
          <button class="fold" aria-label=${isOpen ? "close" : "open"} disabled=${!below} onClick=${() => toggle(name)}>${below ? (isOpen ? "▾" : "▸") : "·"}</button>
          <button class="name" onClick=${() => go("topics", { topic: below && !child.last ? `${topic}.>` : topic })}>${shown(name, 60) || html`<i>empty</i>`}</button>
          <span class="quiet">${below ? `${count(below)} below, ` : ""}${count(child.messages)}</span>
          ${child.last && html`<span class="lastvalue">${brief(child.last)}</span>`}
        </div>
        <${Branch} level=${child} path=${topic} open=${isOpen} go=${go} chosen=${chosen} />
      </li>`
    })}
    ${names.length > SHOWN_CHILDREN && html`<li class="quiet">and ${count(names.length - SHOWN_CHILDREN)} more</li>`}
  </ul>`
}

function payloadOf(message) {
  if (message.value !== undefined) return String(message.value)
  if (message.payload !== undefined) return message.payload
  if (message.payload_base64 !== undefined) return atob(message.payload_base64)
  return ""
}

function brief(message) {
  if (typeof message.value === "number") return number(message.value)
  return shown(payloadOf(message), 40)
}

function asNumber(text) {
  const value = text.trim() === "" ? NaN : Number(text)
  return Number.isFinite(value) ? value : null
}

function forms(message) {
  const text = payloadOf(message)
  let json = ""
  try {
    const parsed = JSON.parse(text)
    if (typeof parsed === "object") json = JSON.stringify(parsed, null, 2)
  } catch {
    // it is no JSON
  }
  const bytes = message.payload_base64 !== undefined ? Uint8Array.from(text, (letter) => letter.charCodeAt(0)) : new TextEncoder().encode(text.slice(0, 4096))
  const hex = Array.from(bytes.slice(0, 512), (byte) => byte.toString(16).padStart(2, "0")).join(" ")
  return { text, json, hex }
}

const isShort = (shape, form) => form === "text" && shape.text.length <= 60 && !shape.text.includes("\n")

function changes(before, after) {
  if (!before) return []
  try {
    const one = JSON.parse(payloadOf(before))
    const other = JSON.parse(payloadOf(after))
    if (typeof one !== "object" || typeof other !== "object" || !one || !other) return []
    return [...new Set([...Object.keys(one), ...Object.keys(other)])]
      .filter((key) => JSON.stringify(one[key]) !== JSON.stringify(other[key]))
      .map((key) => ({ key, from: one[key], to: other[key] }))
  } catch {
    return []
  }
}

function Messages({ messages, isPattern, topic, last, me, refresh }) {
  const [form, setForm] = useState("text")
  const [plotted, setPlotted] = useState("")
  const recent = messages.slice(-40).reverse()
  const retained = last.values.filter((each) => each.retained)
  const points = useMemo(
    () => messages.filter((each) => each.topic === plotted && asNumber(payloadOf(each)) !== null).map((each) => [each.time, asNumber(payloadOf(each))]),
    [plotted, messages.length, messages.at(-1)],
  )
  async function remove(each) {
    await call("POST", `/v1/topics/${topicPath(each.topic)}`, { retain: "1" }, { body: "" })
    refresh()
  }
  return html`<div class="messages">
    <div class="tabs" role="tablist">${["text", "json", "hex"].map((each) => html`<button role="tab" aria-selected=${form === each} onClick=${() => setForm(each)}>${each}</button>`)}</div>
    ${plotted && html`<div><p>${shown(plotted, 120)} <button onClick=${() => setPlotted("")}>Close the chart</button></p>
      <${Chart} label=${plotted} series=${[{ name: plotted, points }]} height=${160} /></div>`}
    ${retained.length > 0 && html`<h3>Retained</h3><ul class="list">${retained.slice(0, 100).map((each) => html`<li key=${each.topic}>
      <code>${shown(each.topic, 120)}</code> ${brief(each)} <span class="quiet">${age(each.age)}</span>
      ${me.may_publish && html`<button onClick=${() => remove(each)}>Remove</button>`}</li>`)}</ul>`}
    <ul class="list" aria-label="messages">
      ${recent.map((message, at) => {
        const shape = forms(message)
        const before = messages.slice(0, messages.length - 1 - at).findLast((each) => each.topic === message.topic)
        const altered = changes(before, message)
        return html`<li key=${messages.length - at}>
          <div class="line"><span class="quiet">${new Date(message.time * 1000).toLocaleTimeString()}</span>
            ${isPattern && html`<code>${shown(message.topic, 160)}</code>`}
            ${isShort(shape, form) && html` <strong class="value">${shown(shape.text)}</strong>`}
            ${asNumber(shape.text) !== null && plotted !== message.topic && html`<button onClick=${() => setPlotted(message.topic)}>plot</button>`}</div>
          ${isShort(shape, form) ? "" : html`<pre>${form === "hex" ? shape.hex : form === "json" && shape.json ? shown(shape.json) : shown(shape.text)}</pre>`}
          ${altered.length > 0 && html`<p class="quiet">changed: ${altered.slice(0, 6).map(({ key, from, to }) => html`<code>${shown(key, 40)}: ${shown(from, 40)} → ${shown(to, 40)}</code> `)}</p>`}
        </li>`
      })}
    </ul>
    ${recent.length === 0 && html`<p class="quiet">No message yet on ${shown(topic, 200)}.</p>`}
  </div>`
}

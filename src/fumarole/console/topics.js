// Topics: a tree whose levels are opened one by one, and the messages of a topic, branch or pattern as they come.
import { html, useEffect, useMemo, useRef, useState } from "/vendor/preact-htm.js"
import { Stream, call, get, topicPath } from "/api.js"
import { Chart } from "/chart.js"
import { CopyAs } from "/copy.js"
import { asNumber, brief, changes, payloadOf, written } from "/payload.js"
import { age, count, plural, shown } from "/text.js"
import { Tree } from "/topic_tree.js"

const KEPT = 300
const SHOWN_CHILDREN = 200
const SHOWN_MESSAGES = 30
const RETAINED = 1000 // topics whose retained messages are asked for at once
const BUSY = 400 // messages in a second: from here on the server sends the newest of each topic, once a second
const MOST = 1500 // messages that the page takes in a second
const AGAIN = 5000 // ms between two looks at the open levels
const SLOW = 500 // ms that such a look may take, or it is not repeated by itself

const inOrder = new Intl.Collator("en", { numeric: true }).compare
const trees = new Map() // by namespace, so that the tree stays while another view is shown

export function Topics({ options, go, visible, me }) {
  const allowed = me.subscribe?.filter((each) => !each.startsWith("_INBOX.")) ?? []
  const usual = allowed[0] ?? ">"
  const pattern = options.topic || usual
  const at = options.at ?? ""
  const [draft, setDraft] = useState(pattern)
  const [unfolded, setUnfolded] = useState(() => new Set(at.split(".").slice(0, -1).map((_, depth, words) => words.slice(0, depth + 1).join("."))))
  if (!trees.has(me.namespace)) trees.set(me.namespace, new Tree())
  const tree = trees.get(me.namespace)
  useEffect(() => setDraft(pattern), [pattern])
  const { messages, state, heard } = useMessages(tree, pattern, at, visible)
  useLevels(tree, unfolded, visible)
  const select = (topic) => go("topics", { ...(pattern === usual ? {} : { topic: pattern }), ...(topic && topic !== at ? { at: topic } : {}) })
  const toggle = (path) => {
    const next = new Set(unfolded)
    if (!next.delete(path)) next.add(path)
    setUnfolded(next)
  }
  return html`<section class="topics">
    <form class="query" onSubmit=${(event) => {
        event.preventDefault()
        go("topics", { topic: draft.trim() || usual })
      }}>
      <label for="pattern">Topic or pattern</label>
      <div class="box"><input id="pattern" value=${draft} spellcheck=${false} autocomplete="off" autocapitalize="off" placeholder="volcanoes.>"
        onInput=${(event) => setDraft(event.target.value)} /><button class="first">Listen</button></div>
      ${state.problem && html`<p class="problem" role="alert">${state.problem.position !== undefined && html`<code class="mark" aria-hidden="true">${" ".repeat(state.problem.position)}▲</code>`}${state.problem.message}</p>`}
    </form>
    ${allowed.length > 1 && html`<p class="suggestions"><span class="quiet">You may listen to</span> ${allowed.map((each) => html`<button key=${each} onClick=${() => go("topics", { topic: each })}><code>${shown(each, 90)}</code></button>`)}</p>`}
    <div class="bar"><strong class="count" data-testid="heard">${plural(heard, "message")}</strong> <span class="quiet">heard</span>
      ${state.name === "open" ? html`<span class="live">live</span>` : html`<span class="problem" role="status">${state.name === "lost" ? "connection lost, trying again…" : state.name}</span>`}
      ${state.busy && html`<span class="quiet">More than ${count(BUSY)} a second: of each topic the newest, once a second.</span>`}
      ${state.dropped > 0 && html`<span class="problem">${plural(state.dropped, "message")} did not fit</span>`}
      <${CopyAs} topic=${at || pattern} /></div>
    <div class="columns">
      <div class="panel levels">
        <div role="tree" aria-label="topics"><${Branch} tree=${tree} level=${tree.root} path="" unfolded=${unfolded} toggle=${toggle} select=${select} at=${at} busy=${state.busy} /></div>
        ${tree.root.children.size === 0 && html`<p class="quiet none">No topic yet. A message that comes puts its topic here.</p>`}
        <p class="quiet note">The tree has ${tree.keepsLast ? "the last message of each topic" : "retained messages, the last readings of producers"} and what this page has heard.
          ${!tree.keepsLast && html` With <code>last = "all"</code> the namespace would keep the last message of each topic.`}
          ${tree.isFull && " It is full; narrow the pattern."}</p>
      </div>
      <${Messages} key=${`${pattern} ${at}`} messages=${messages} isPattern=${!at || tree.find(at)?.isBranch} topic=${at || pattern} level=${tree.find(at)} branch=${at} me=${me} visible=${visible} />
    </div>
  </section>`
}

// Of the pattern, each message; where that is too much, the newest of each topic once a second, and each message of what
// is chosen in the tree. One stream at a time.
function useMessages(tree, pattern, at, visible) {
  const [, redraw] = useState(0)
  const [state, setState] = useState({ name: "connecting", dropped: 0, busy: false })
  const kept = useRef({ heard: 0, all: [] }).current
  const chosen = useRef({ of: "", list: [] }).current
  const isChosen = (topic) => !at || topic === at || topic.startsWith(`${at}.`)
  if (chosen.of !== at) Object.assign(chosen, { of: at, list: kept.all.filter((each) => isChosen(each.topic)) })
  const branch = at && (tree.find(at)?.isBranch ? `${at}.>` : at)
  const asked = state.busy && branch ? branch : pattern
  const every = state.busy && !branch ? "1s" : undefined
  const wanted = useRef(isChosen)
  wanted.current = isChosen
  useEffect(() => setState({ name: "connecting", dropped: 0, busy: false }), [pattern])
  useEffect(() => {
    if (!visible) return undefined
    let drawing = 0
    let second = 0
    let many = 0
    const take = (message) => {
      const now = Date.now() / 1000
      if (Math.floor(now) !== second) [second, many] = [Math.floor(now), 0]
      if (++many > BUSY && !every && asked === pattern) setState((before) => (before.busy ? before : { ...before, busy: true }))
      tree.hear(message, now)
      kept.heard++
      for (const list of wanted.current(message.topic) ? [kept.all, chosen.list] : [kept.all]) {
        list.push(message)
        if (list.length > 2 * KEPT) list.splice(0, KEPT)
      }
      drawing ||= setTimeout(() => {
        drawing = 0
        redraw((before) => before + 1)
      }, 250)
    }
    const stream = new Stream({ topic: asked, every }, {
      message: take,
      reading: take,
      dropped: ({ total }) => setState((before) => ({ ...before, dropped: total })),
      state: (name, problem) => setState((before) => ({ ...before, name, problem: problem?.status === 400 || problem?.status === 403 ? problem : null })),
    }, MOST)
    const fading = setInterval(() => redraw((before) => before + 1), 1000) // rates go down while nothing comes
    return () => {
      clearTimeout(drawing)
      clearInterval(fading)
      stream.stop()
    }
  }, [asked, every, visible])
  return { messages: chosen.list, heard: kept.heard, state }
}

// The levels that are open, asked for one after the other.
function useLevels(tree, unfolded, visible) {
  const [, redraw] = useState(0)
  useEffect(() => {
    if (!visible) return undefined
    let stopped = false
    let timer = 0
    const look = async () => {
      const begin = performance.now()
      for (const path of ["", ...unfolded]) {
        if (stopped) return
        try {
          tree.serve(path, await get("/v1/levels", { below: path }))
        } catch {
          // what was heard is shown without it
        }
      }
      redraw((before) => before + 1)
      if (!stopped && performance.now() - begin < SLOW) timer = setTimeout(look, AGAIN)
    }
    look()
    return () => {
      stopped = true
      clearTimeout(timer)
    }
  }, [[...unfolded].join("\n"), visible])
}

function Branch({ tree, level, path, unfolded, toggle, select, at, busy }) {
  const [filter, setFilter] = useState("")
  const names = [...level.children.keys()].filter((name) => name.includes(filter)).sort(inOrder)
  const now = Date.now() / 1000
  return html`<ul role="group">
    ${level.children.size > SHOWN_CHILDREN && html`<li role="none"><input type="search" aria-label="filter words" placeholder=${`filter ${count(level.children.size)} words`}
      value=${filter} onInput=${(event) => setFilter(event.target.value)} /></li>`}
    ${names.slice(0, SHOWN_CHILDREN).map((name) => {
      const child = level.children.get(name)
      const topic = path ? `${path}.${name}` : name
      const isOpen = unfolded.has(topic)
      const rate = child.rateAt(now)
      return html`<li key=${name} role="treeitem" aria-expanded=${child.isBranch ? isOpen : undefined} aria-selected=${at === topic}>
        <div class=${at === topic ? "level chosen" : "level"}>
          <button class="fold" aria-label=${`${isOpen ? "close" : "open"} ${shown(name, 60)}`} disabled=${!child.isBranch} onClick=${() => toggle(topic)}>${child.isBranch ? (isOpen ? "▾" : "▸") : "·"}</button>
          <button class="name" title=${shown(topic, 300)} onClick=${() => {
            if (child.isBranch && !isOpen) toggle(topic)
            select(topic)
          }}>${shown(name, 60) || html`<i>empty</i>`}</button>
          ${child.isBranch && html`<span class="quiet below" title="topics below">${count(Math.max(child.kept, child.children.size))}</span>`}
          <span class="lastvalue">${child.last && brief(child.last)}</span>
          <span class="quiet rate">${rate >= 0.05 ? `${busy ? "≥ " : ""}${rate < 10 ? rate.toFixed(1) : count(rate)}/s` : ""}</span>
        </div>
        ${isOpen && html`<${Branch} tree=${tree} level=${child} path=${topic} unfolded=${unfolded} toggle=${toggle} select=${select} at=${at} busy=${busy} />`}
      </li>`
    })}
    ${(names.length > SHOWN_CHILDREN || level.more) && html`<li role="none" class="quiet">${names.length > SHOWN_CHILDREN ? `and ${level.more ? "at least " : ""}${count(names.length - SHOWN_CHILDREN)} more` : "and more"}</li>`}
  </ul>`
}

function Messages({ messages, isPattern, topic, level, branch, me, visible }) {
  const [form, setForm] = useState("text")
  const [plotted, setPlotted] = useState("")
  const [stopped, setStopped] = useState(null)
  const some = stopped ?? messages
  const recent = some.slice(-SHOWN_MESSAGES).reverse()
  const points = useMemo(
    () => messages.filter((each) => each.topic === plotted && asNumber(payloadOf(each)) !== null).map((each) => [each.time, asNumber(payloadOf(each))]),
    [plotted, messages.length, messages.at(-1)],
  )
  return html`<div class="panel messages">
    <div class="bar"><h2>${branch ? html`<code>${shown(branch, 200)}</code>` : "Messages"}</h2>
      <span class="tabs" role="tablist" aria-label="payloads as">${["text", "json", "hex"].map((each) => html`<button role="tab" aria-selected=${form === each} onClick=${() => setForm(each)}>${each}</button>`)}</span>
      <button aria-pressed=${stopped !== null} onClick=${() => setStopped(stopped ? null : messages.slice())}>${stopped ? "Go on" : "Pause"}</button></div>
    ${plotted && html`<div><p><code>${shown(plotted, 120)}</code> <button onClick=${() => setPlotted("")}>Close the chart</button></p>
      <${Chart} label=${plotted} series=${[{ name: plotted, points }]} height=${180} /></div>`}
    ${branch && html`<${Listeners} topic=${level?.isBranch ? `${branch}.>` : branch} visible=${visible} me=${me} />`}
    <${Retained} branch=${branch} level=${level} pattern=${topic} me=${me} />
    <ul class="list" aria-label="messages">
      ${recent.map((message, index) => {
        const before = some.slice(0, some.length - 1 - index).findLast((each) => each.topic === message.topic)
        const text = written(message, form)
        const isShort = form === "text" && text.length <= 60 && !text.includes("\n")
        const altered = changes(before, message)
        return html`<li key=${`${message.time} ${message.topic} ${some.length - index}`}>
          <div class="line"><span class="quiet time">${new Date(message.time * 1000).toLocaleTimeString("en-GB")}</span>
            ${isPattern && html`<code>${shown(message.topic, 160)}</code>`}
            ${isShort && html`<strong class="value">${text}</strong>`}
            ${altered.length > 0 && html`<span class="quiet" title="what changed since the message before">${altered.map((each) => html`<span class="changed">${each}</span> `)}</span>`}
            ${asNumber(payloadOf(message)) !== null && plotted !== message.topic && html`<button class="plot" onClick=${() => setPlotted(message.topic)}>plot</button>`}</div>
          ${isShort ? "" : html`<pre tabindex="0">${text}</pre>`}
        </li>`
      })}
    </ul>
    ${recent.length === 0 && html`<p class="quiet">No message yet on <code>${shown(topic, 200)}</code>. ${level?.last && !level.isBranch ? html`The last one, ${age(level.last.age)} before this page opened, was <code>${brief(level.last)}</code>.` : ""}</p>`}
  </div>`
}

// Who gets what is published here.
function Listeners({ topic, visible, me }) {
  const [told, setTold] = useState(null)
  useEffect(() => {
    if (!visible) return undefined
    let timer = 0
    const ask = () => get("/v1/consumers", { topic }).then(setTold, () => setTold(null)).then(() => (timer = timer === null ? null : setTimeout(ask, AGAIN)))
    ask()
    return () => {
      clearTimeout(timer)
      timer = null
    }
  }, [topic, visible])
  if (!told) return null
  return html`<details open=${told.worst.length < 6}><summary>${plural(told.worst.length, "consumer")} of ${me.admin ? "this node" : "yours"} ${told.worst.length === 1 ? "gets" : "get"} it</summary>
    <ul>${told.worst.slice(0, 50).map((each) => html`<li class="line"><span>${shown(each.connection, 60)}</span> <code>${shown(each.query ?? each.pattern, 120)}</code>
      ${each.group && html`<span>group <strong>${shown(each.group, 60)}</strong></span>`} <span class="quiet">${count(each.delivered)} delivered${each.dropped > 0 ? `, ${count(each.dropped)} dropped` : ""}</span></li>`)}</ul></details>`
}

function Retained({ branch, level, pattern, me }) {
  const [values, setValues] = useState([])
  const isSmall = branch ? (level?.kept ?? 0) <= RETAINED : pattern !== ">" || [...(level?.children.values() ?? [])].reduce((sum, each) => sum + each.kept, 0) <= RETAINED
  const ask = async () => {
    const asked = branch ? [branch, ...(level?.isBranch ? [`${branch}.>`] : [])] : [pattern]
    const told = await Promise.all(asked.map((each) => get(`/v1/topics/${topicPath(each)}`).catch(() => ({ values: [] }))))
    setValues(told.flatMap((each) => each.values).filter((each) => each.retain))
  }
  useEffect(() => {
    if (isSmall) ask()
  }, [branch, pattern, level?.isBranch, isSmall])
  async function remove(topic) {
    if (!confirm(`Remove the retained message of ${topic}?`)) return
    await call("DELETE", `/v1/topics/${topicPath(topic)}`).catch(() => {})
    ask()
  }
  if (!values.length) return null
  return html`<details open=${values.length < 6}><summary>${plural(values.length, "retained message")}</summary><ul>${values.slice(0, 100).map((each) => html`<li class="line" key=${each.topic}>
    <code>${shown(each.topic, 120)}</code> <strong class="value">${brief(each)}</strong> <span class="quiet">${age(each.age)}</span>
    ${me.may_publish && html`<button onClick=${() => remove(each.topic)}>Remove</button>`}</li>`)}</ul></details>`
}

// The text of a query: completion of keys, values and operators; the place of a mistake. Enter runs it, Tab completes.
import { html, useEffect, useRef, useState } from "/vendor/preact-htm.js"
import { get } from "/api.js"
import { quoted, shown } from "/text.js"

const OPERATORS = ["=", "!=", "<", "<=", ">", ">=", "in (", "between ", "like '", "matches '", "is null", "is not null"]
const JOINTS = ["and ", "or ", "and not "]
const MESSAGE = ["$value", "$topic", "$size", "$producer"]
const WORD = /[\w~$/%.`-]*$/
const VALUE = /([\w~$/%.-]+|`[^`]+`)\s*(?:=|!=|<>|<=?|>=?|in\s*\(|like|matches)\s*('(?:[^']|'')*)?$/i
const AFTER_KEY = /(?:^|\band\b|\bor\b|\bnot\b|\bwhere\b|\()\s*([\w~$/%.-]+|`[^`]+`)\s+$/i
const AFTER_TEST = /(?:'|\d|\)|true|false|null)\s+$/i
const SHOWN = 8

let known = { keys: [], at: 0 }

async function facets() {
  if (Date.now() - known.at > 15000) known = { keys: (await get("/v1/facets", { limit: 20 })).keys, at: Date.now() }
  return known.keys
}

// What may follow the text before the caret: {from, choices}.
export function completions(text, keys) {
  const value = VALUE.exec(text)
  if (value) {
    const name = value[1].replaceAll("`", "")
    const typed = value[2] || ""
    const key = keys.find((each) => each.key === name)
    const choices = (key ? key.values : []).map((each) => quoted(each.value)).filter((each) => each.toLowerCase().startsWith(typed.toLowerCase()) && each !== typed)
    if (choices.length || typed) return { from: text.length - typed.length, choices }
  }
  if (AFTER_TEST.test(text)) return { from: text.length, choices: JOINTS }
  if (AFTER_KEY.test(text) && !/\b(and|or|not|has|where|select)\s+$/i.test(text)) return { from: text.length, choices: OPERATORS }
  const word = WORD.exec(text)[0]
  if (/'[^']*$/.test(text.replaceAll("''", "")) && (text.match(/'/g) || []).length % 2) return { from: text.length, choices: [] }
  const names = [...keys.map((each) => each.name), ...MESSAGE, "not ", "has "]
  const choices = names.filter((each) => each.toLowerCase().startsWith(word.toLowerCase()) && each !== word)
  return { from: text.length - word.length, choices }
}

export function QueryBox({ text, change, submit, problem }) {
  const box = useRef(null)
  const [found, setFound] = useState({ from: 0, choices: [] })
  const [at, setAt] = useState(0)
  const [open, setOpen] = useState(false)
  useEffect(() => box.current.focus(), [])

  async function look() {
    const before = box.current.value.slice(0, box.current.selectionStart)
    try {
      const keys = await facets()
      if (box.current) setFound(completions(before, keys))
    } catch {
      setFound({ from: 0, choices: [] })
    }
    setAt(0)
  }
  function take(choice) {
    const caret = box.current.selectionStart
    const made = text.slice(0, found.from) + choice
    change(made + text.slice(caret))
    requestAnimationFrame(() => {
      box.current.focus()
      box.current.setSelectionRange(made.length, made.length)
      look()
    })
  }
  const choices = found.choices.slice(0, SHOWN)
  const isOpen = open && choices.length > 0
  function pressed(event) {
    if (event.key === "Enter") {
      event.preventDefault()
      setOpen(false)
      submit(text)
    } else if (event.key === "Tab" && isOpen && !event.shiftKey) {
      event.preventDefault()
      take(choices[at])
    } else if (event.key === "ArrowDown" && isOpen) {
      event.preventDefault()
      setAt((at + 1) % choices.length)
    } else if (event.key === "ArrowUp" && isOpen) {
      event.preventDefault()
      setAt((at + choices.length - 1) % choices.length)
    } else if (event.key === "Escape") setOpen(false)
  }
  const position = problem?.position
  return html`<form class="query" onSubmit=${(event) => {
      event.preventDefault()
      submit(text)
    }}>
    <label for="query">Which sensors?</label>
    <div class="box">
      <input id="query" ref=${box} value=${text} spellcheck=${false} autocomplete="off" autocapitalize="off"
        placeholder="Region = 'italy' and $value > 20" role="combobox" aria-expanded=${isOpen} aria-controls="choices"
        aria-autocomplete="list" aria-activedescendant=${isOpen ? `choice-${at}` : undefined} aria-invalid=${problem ? "true" : undefined}
        aria-describedby=${problem ? "query-problem" : undefined} onKeyDown=${pressed} onFocus=${look} onClick=${look}
        onBlur=${() => setTimeout(() => setOpen(false), 150)}
        onInput=${(event) => {
          change(event.target.value)
          setOpen(true)
          look()
        }} />
      <button class="first">Ask</button>
      ${isOpen && html`<ul id="choices" role="listbox" aria-label="completions">
        ${choices.map((choice, each) => html`<li id=${`choice-${each}`} role="option" aria-selected=${each === at}
          onMouseDown=${(event) => {
            event.preventDefault()
            take(choice)
          }}>${shown(choice, 60)}</li>`)}
        <li class="hint" role="presentation">Tab completes, Enter asks</li>
      </ul>`}
    </div>
    ${problem && html`<p id="query-problem" class="problem" role="alert">
      ${position !== undefined && html`<code class="mark" aria-hidden="true">${" ".repeat(position)}▲</code>`}${shown(problem.message, 400)}</p>`}
  </form>`
}

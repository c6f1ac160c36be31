// Any producer, whether the query selects it or not: its page says which tests hold, fail or are unknown.
import { html, useEffect, useRef, useState } from "/vendor/preact-htm.js"
import { get } from "/api.js"
import { shown } from "/text.js"

const LOOKED_AT = 1000
const SHOWN = 12
const AN_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

// By its id, by a query, or by any text in its metadata.
async function found(text) {
  const wanted = text.trim()
  if (AN_ID.test(wanted)) return [await get(`/v1/producers/${wanted.toLowerCase()}`)]
  if (/[=<>]|\b(has|in|like|is)\b/i.test(wanted)) return (await get("/v1/producers", { where: wanted, limit: LOOKED_AT })).producers
  const { producers } = await get("/v1/producers", { limit: LOOKED_AT })
  return producers.filter((each) => `${each.id} ${JSON.stringify(each.metadata)}`.toLowerCase().includes(wanted.toLowerCase()))
}

export function WhyNot({ set, open }) {
  const [isOpen, setIsOpen] = useState(false)
  const [text, setText] = useState("")
  const [answer, setAnswer] = useState({ list: [], said: "" })
  const box = useRef(null)
  useEffect(() => {
    if (!isOpen) return undefined
    box.current?.focus()
    const close = (event) => event.key === "Escape" && setIsOpen(false)
    addEventListener("keydown", close)
    return () => removeEventListener("keydown", close)
  }, [isOpen])
  useEffect(() => {
    if (!isOpen) return undefined
    let stopped = false
    const timer = setTimeout(() => found(text).then(
      (list) => !stopped && setAnswer({ list: list.filter(({ id }) => !set.rows.has(id) || set.rows.get(id).gone), said: "" }),
      (error) => !stopped && setAnswer({ list: [], said: error.message }),
    ), 200)
    return () => {
      stopped = true
      clearTimeout(timer)
    }
  }, [isOpen, text, set])
  const { list, said } = answer
  return html`<div class="copy why-not">
    <button aria-expanded=${isOpen} onClick=${() => setIsOpen(!isOpen)}>Why not…?</button>
    ${isOpen && html`<div class="popup" role="dialog" aria-label="producers that the query does not select">
      <label>A producer that is not in the set <input ref=${box} type="search" value=${text} placeholder="an id, a text of its metadata, or a query"
        onInput=${(event) => setText(event.target.value)} /></label>
      ${said && html`<p class="problem">${said}</p>`}
      <ul class="list">${list.slice(0, SHOWN).map((each) => html`<li key=${each.id}><button onClick=${() => {
        setIsOpen(false)
        open(each.id)
      }}><span class="id">${each.id.slice(0, 8)}</span> <span class="quiet">${summary(each.metadata)}</span></button></li>`)}</ul>
      ${!said && html`<p class="quiet">${list.length > SHOWN ? `and ${list.length - SHOWN} more` : list.length ? "" : "None of this kind is outside the set."}</p>`}
    </div>`}
  </div>`
}

function summary(metadata) {
  return Object.entries(metadata).filter(([key]) => key !== "_online").slice(0, 5).map(([key, value]) => `${shown(key, 20)} ${shown(value, 24)}`).join(" · ")
}

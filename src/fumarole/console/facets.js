// The keys of the selected producers with their most frequent values; a click adds a test to the query.
import { html, useEffect, useState } from "/vendor/preact-htm.js"
import { get } from "/api.js"
import { count, quoted, shown } from "/text.js"

const AT_MOST_EVERY = 2000
const KEYS = 10

export function Facets({ where, version, visible, refine }) {
  const [told, setTold] = useState(null)
  const [all, setAll] = useState(false)
  const [asked] = useState({ at: 0, timer: 0 })
  useEffect(() => {
    if (!visible) return undefined
    const wait = Math.max(0, asked.at + AT_MOST_EVERY - Date.now())
    const timer = setTimeout(() => {
      asked.at = Date.now()
      get("/v1/facets", { where }).then(setTold, () => {})
    }, wait)
    return () => clearTimeout(timer)
  }, [where, version, visible])
  if (!told) return html`<aside class="facets" aria-label="facets"></aside>`
  // A key of which hardly two producers have the same value, such as a name or a place, is closed at first.
  const telling = (each) => each.producers === 1 || each.producers >= 1.5 * (each.values.length + each.more)
  const keys = all ? told.keys : told.keys.slice(0, KEYS)
  return html`<aside class="facets" aria-label="facets">
    ${keys.map((each) => html`<details key=${each.key} open=${telling(each)}>
      <summary>${shown(each.key, 40)} <span class="quiet">${count(each.producers)}</span></summary>
      <ul>${each.values.map(({ value, count: many }) => html`<li>
        <button onClick=${() => refine(`${each.name} = ${quoted(value)}`)} title=${`and ${each.name} = ${shown(quoted(value), 80)}`}>
          <span>${shown(value, 40) || "''"}</span><span class="quiet">${count(many)}</span></button></li>`)}
        ${each.more > 0 && html`<li class="quiet">and ${count(each.more)} more</li>`}
      </ul></details>`)}
    ${told.keys.length > KEYS && html`<button onClick=${() => setAll(!all)}>${all ? "Fewer keys" : `All ${told.keys.length} keys`}</button>`}
  </aside>`
}

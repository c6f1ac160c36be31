// The keys of the selected producers with their most frequent values; a click adds a test to the query.
import { html, useEffect, useState } from "/vendor/preact-htm.js"
import { get } from "/api.js"
import { count, quoted, shown } from "/text.js"

const AT_MOST_EVERY = 2000
const AGAIN = 5000 // ms: values change while the set stays
const AGAIN_FOR_EACH = 1
const KEYS = 10

export function Facets({ where, text, version, visible, refine }) {
  const [told, setTold] = useState(null)
  const [all, setAll] = useState(false)
  const [asked] = useState({ at: 0, timer: 0 })
  useEffect(() => {
    if (!visible) return undefined
    let timer = 0
    const ask = async () => {
      asked.at = Date.now()
      try {
        const answer = await get("/v1/facets", { where })
        if (timer === null) return
        setTold(answer)
        timer = setTimeout(ask, Math.max(AGAIN, answer.producers * AGAIN_FOR_EACH))
      } catch {
        // the stream beside it says what is wrong
      }
    }
    timer = setTimeout(ask, Math.max(0, asked.at + AT_MOST_EVERY - Date.now()))
    return () => {
      clearTimeout(timer)
      timer = null
    }
  }, [where, version, visible])
  if (!told) return html`<aside class="facets" aria-label="facets"></aside>`
  if (!told.keys.length) return html`<aside class="facets none" aria-label="facets"></aside>`
  const presence = told.keys.find((each) => each.key === "_online")
  const keys = told.keys.filter((each) => each !== presence)
  return html`<aside class="facets" aria-label="facets">
    ${presence && html`<${Facet} facet=${presence} title="presence" isOpen=${true} text=${text} refine=${refine} test=${(value) => (value ? "_online" : "not _online")}
      name=${(value) => html`<span class=${value ? "presence on" : "presence off"}>${value ? "online" : "offline"}</span>`} />`}
    ${(all ? keys : keys.slice(0, KEYS)).map((each) => html`<${Facet} key=${each.key} facet=${each} title=${shown(each.key, 40)} text=${text} refine=${refine}
      test=${(value) => `${each.name} = ${quoted(value)}`} name=${(value) => shown(value, 40) || "''"} />`)}
    ${keys.length > KEYS && html`<button onClick=${() => setAll(!all)}>${all ? "Fewer keys" : `All ${keys.length} keys`}</button>`}
  </aside>`
}

// A key of which hardly two producers have the same value, such as a name or a place, is closed at first.
function isTelling({ producers, values, more }) {
  return producers === 1 || producers >= 1.5 * (values.length + more)
}

function Facet({ facet, title, isOpen = isTelling(facet), text, refine, test, name }) {
  const { producers, values, more } = facet
  return html`<details open=${isOpen}>
    <summary>${title} <span class="quiet">${count(producers)}</span></summary>
    <ul>${values.map(({ value, count: many }) => {
      const term = test(value)
      const isAsked = text === term || text.endsWith(` and ${term}`) || text.startsWith(`${term} and `) || text.includes(` and ${term} and `)
      return html`<li key=${term}><button aria-pressed=${isAsked} onClick=${() => isAsked || refine(term)} title=${isAsked ? "this is in the query" : `and ${shown(term, 80)}`}
        style=${{ backgroundSize: `${(100 * many) / producers}% 100%` }}>
        <span>${name(value)}</span><span class="quiet">${count(many)}</span></button></li>`
    })}
    ${more > 0 && html`<li class="quiet">and ${count(more)} more</li>`}
    </ul></details>`
}

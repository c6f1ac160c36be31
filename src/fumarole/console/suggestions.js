// Queries to begin with, made of the keys and values that the producers here have.
import { html, useEffect, useState } from "/vendor/preact-htm.js"
import { get } from "/api.js"
import { quoted, shown } from "/text.js"

export function Suggestions({ take }) {
  const [texts, setTexts] = useState([])
  useEffect(() => {
    get("/v1/facets", { limit: 5 }).then((told) => setTexts(suggested(told)), () => {})
  }, [])
  if (!texts.length) return null
  return html`<p class="suggestions"><span class="quiet">Try</span> ${texts.map((text) => html`<button key=${text} onClick=${() => take(text)}><code>${shown(text, 90)}</code></button>`)}</p>`
}

// Keys tell something when several producers share a value, and not all the same one.
export function suggested({ producers, keys }) {
  if (!producers) return []
  const telling = keys.filter((each) => each.key !== "_online" && each.values.length > 1 && each.more + each.values.length <= producers / 2 && each.values[0].count < producers)
  // Where nearly all have one value, those that have another come and go.
  const example = ({ values }) => quoted((values[0].count > 0.7 * producers ? values.at(-1) : values[0]).value)
  const texts = telling.slice(0, 2).map((each) => `${each.name} = ${example(each)}`)
  if (telling.length > 1) texts.push(`${texts[0]} and ${telling[1].name} != ${quoted(telling[1].values[0].value)}`)
  const text = keys.find((each) => typeof each.values[0]?.value === "string" && each.values[0].value.length > 2 && each.producers >= producers / 4 && !texts.some((other) => other.startsWith(each.name)))
  if (text) texts.push(`${text.name} like ${quoted(`${text.values[0].value.slice(0, 2)}%`)}`)
  if (keys.some((each) => each.key === "_online")) texts.push("not _online")
  if (telling.length) texts.push(`select ${telling[0].name}, count(*) where has ${telling[0].name}`)
  return texts
}

// A view (`select Region, count(*) where …`): a table, and bars where there is a count.
import { html, useEffect, useState } from "/vendor/preact-htm.js"
import { Stream } from "/api.js"
import { count, plural, shown } from "/text.js"

export function View({ text, visible }) {
  const [rows, setRows] = useState(new Map())
  const [state, setState] = useState({ name: "connecting" })
  useEffect(() => {
    if (!visible) return undefined
    let all = new Map()
    let fresh = true
    const stream = new Stream({ where: text }, {
      view: ({ New, Del }) => {
        all = fresh ? new Map() : new Map(all)
        fresh = false
        for (const each of Del) all.delete(JSON.stringify(each))
        for (const each of New) all.set(JSON.stringify(each), each)
        setRows(all)
      },
      state: (name, problem) => {
        if (name === "open") fresh = true
        setState({ name, problem })
      },
    })
    return () => stream.stop()
  }, [text, visible])
  const counted = /count\(\s*\*\s*\)/i.test(text)
  const list = [...rows.values()]
  if (counted) list.sort((one, other) => other.at(-1) - one.at(-1))
  const most = counted ? Math.max(1, ...list.map((each) => each.at(-1))) : 1
  return html`<div class="view">
    <p><strong data-testid="size">${plural(list.length, "row")}</strong>
      ${state.name === "open" ? html` <span class="live">live</span>` : html` <span class="problem">${state.problem?.message || state.name}</span>`}</p>
    <table><tbody>${list.slice(0, 1000).map((each) => html`<tr key=${JSON.stringify(counted ? each.slice(0, -1) : each)}>
      ${(counted ? each.slice(0, -1) : each).map((value) => html`<td>${value === null ? html`<i class="quiet">none</i>` : shown(value, 120)}</td>`)}
      ${counted && html`<td class="value">${count(each.at(-1))}</td>
        <td class="bar"><svg width="100%" height="14" preserveAspectRatio="none" aria-hidden="true"><rect height="14" rx="2" width=${`${(100 * each.at(-1)) / most}%`} /></svg></td>`}
    </tr>`)}</tbody></table>
  </div>`
}

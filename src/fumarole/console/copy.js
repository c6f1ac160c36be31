// The same subscription elsewhere, as the server writes it.
import { html, useEffect, useState } from "/vendor/preact-htm.js"
import { get } from "/api.js"

export function CopyAs({ where, topic }) {
  const [open, setOpen] = useState(false)
  const [forms, setForms] = useState([])
  const [chosen, setChosen] = useState("python")
  const [done, setDone] = useState("")
  useEffect(() => {
    if (!open) return
    setDone("")
    get("/v1/copies", { where, topic }).then((told) => setForms(told.copies), (error) => setForms([{ form: "python", why_not: error.message }]))
  }, [open, where, topic])
  const form = forms.find((each) => each.form === chosen) || forms[0]
  async function copy() {
    try {
      await navigator.clipboard.writeText(form.lines)
      setDone("copied")
    } catch {
      setDone("select the lines and copy them: the browser does not allow more")
    }
  }
  return html`<div class="copy">
    <button aria-expanded=${open} onClick=${() => setOpen(!open)}>Copy as…</button>
    ${open && form && html`<div class="popup" role="dialog" aria-label="copy as">
      <div class="tabs" role="tablist">${forms.map((each) => html`<button role="tab" aria-selected=${each.form === form.form}
        onClick=${() => (setChosen(each.form), setDone(""))}>${each.form}</button>`)}</div>
      ${form.lines ? html`<pre tabindex="0">${form.lines}</pre><p><button class="first" onClick=${copy}>Copy</button> <span role="status">${done}</span></p>` : html`<p>${form.why_not}</p>`}
    </div>`}
  </div>`
}

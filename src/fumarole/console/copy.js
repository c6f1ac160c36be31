// The same subscription elsewhere, as the server writes it.
import { html, useEffect, useState } from "/vendor/preact-htm.js"
import { get } from "/api.js"

export function CopyAs({ where, topic }) {
  const [open, setOpen] = useState(false)
  const [forms, setForms] = useState([])
  const [chosen, setChosen] = useState("python")
  useEffect(() => {
    if (!open) return undefined
    get("/v1/copies", { where, topic }).then((told) => setForms(told.copies), (error) => setForms([{ form: "python", why_not: error.message }]))
    const close = (event) => event.key === "Escape" && setOpen(false)
    addEventListener("keydown", close)
    return () => removeEventListener("keydown", close)
  }, [open, where, topic])
  const form = forms.find((each) => each.form === chosen) || forms[0]
  return html`<div class="copy">
    <button aria-expanded=${open} onClick=${() => setOpen(!open)}>Copy as…</button>
    ${open && form && html`<div class="popup" role="dialog" aria-label="copy as">
      <div class="tabs" role="tablist">${forms.map((each) => html`<button role="tab" aria-selected=${each.form === form.form}
        onClick=${() => setChosen(each.form)}>${each.form}</button>`)}</div>
      ${form.lines ? html`<${Copied} key=${form.form} lines=${form.lines} />` : html`<p>${form.why_not}</p>`}
    </div>`}
  </div>`
}

// Lines with a button that copies them.
export function Copied({ lines }) {
  const [done, setDone] = useState("")
  useEffect(() => setDone(""), [lines])
  async function copy() {
    try {
      await navigator.clipboard.writeText(lines)
      setDone("copied")
    } catch {
      setDone("select the lines and copy them: the browser does not allow more")
    }
  }
  return html`<div class="copied"><pre tabindex="0">${lines}</pre><button onClick=${copy}>Copy</button> <span role="status" class="done">${done}</span></div>`
}

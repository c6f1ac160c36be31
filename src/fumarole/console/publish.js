// Publish a message, ask with a request, describe or forget a producer.
import { html, useEffect, useRef, useState } from "/vendor/preact-htm.js"
import { call, get, topicPath } from "/api.js"
import { count, plural, shown } from "/text.js"

const AN_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i
const OFFERED = 100

export function Publish({ options }) {
  return html`<section class="publish"><${Message} topic=${options.topic ?? ""} /><${Request} /><${Describe} id=${options.id ?? ""} /></section>`
}

function Said({ said }) {
  if (!said) return null
  return html`<p class=${said.problem ? "problem" : "done"} role="status">${said.problem || said.text}</p>`
}

function headersOf(text) {
  const headers = {}
  for (const line of text.split("\n")) {
    const at = line.indexOf(":")
    if (at > 0) headers[`Fumarole-Header-${line.slice(0, at).trim()}`] = line.slice(at + 1).trim()
  }
  return headers
}

function Message({ topic }) {
  const [said, setSaid] = useState(null)
  const [repeating, setRepeating] = useState(0)
  const [sent, setSent] = useState(0)
  const timer = useRef(0)
  const form = useRef(null)
  useEffect(() => () => clearInterval(timer.current), [])
  async function send() {
    const given = new FormData(form.current)
    try {
      const told = await call("POST", `/v1/topics/${topicPath(given.get("topic"))}`, { retain: given.get("retain") ? "1" : "" }, {
        body: given.get("payload"),
        headers: headersOf(given.get("headers")),
      })
      setSent((before) => before + 1)
      setSaid({ text: `It went to ${plural(told.delivered_to, "consumer or group", "consumers or groups")}.` })
    } catch (error) {
      setSaid({ problem: error.message })
      stop()
    }
  }
  function stop() {
    clearInterval(timer.current)
    setRepeating(0)
  }
  function submit(event) {
    event.preventDefault()
    setSent(0)
    send()
    const every = Number(new FormData(form.current).get("repeat"))
    stop()
    if (every > 0) {
      timer.current = setInterval(send, every * 1000)
      setRepeating(every)
    }
  }
  return html`<form ref=${form} onSubmit=${submit}>
    <h2>Publish a message</h2>
    <label>Topic <input name="topic" required defaultValue=${topic} spellcheck=${false} placeholder="volcanoes.usa.atka" /></label>
    <label>Payload <textarea name="payload" rows="4" spellcheck=${false} placeholder="21.5"></textarea></label>
    <label>Headers, one a line <textarea name="headers" rows="2" placeholder="Unit: celsius"></textarea></label>
    <label class="inline"><input type="checkbox" name="retain" /> retain: keep it as the newest of its topic</label>
    <label>Repeat every so many seconds (0: once) <input name="repeat" type="number" min="0" step="0.1" defaultValue="0" /></label>
    <p class="actions"><button class="first">Publish</button>
      ${repeating > 0 && html`<button type="button" onClick=${stop}>Stop repeating (${plural(sent, "message")})</button>`}</p>
    <${Said} said=${said} />
  </form>`
}

function Request() {
  const [said, setSaid] = useState(null)
  const [replies, setReplies] = useState([])
  async function submit(event) {
    event.preventDefault()
    const given = new FormData(event.target)
    setReplies([])
    setSaid({ text: "waiting for replies…" })
    try {
      const told = await call("POST", `/v1/requests/${topicPath(given.get("topic"))}`, { replies: given.get("replies"), timeout: given.get("timeout") }, { body: given.get("payload") })
      setReplies(told.replies)
      setSaid({ text: plural(told.replies.length, "reply", "replies") })
    } catch (error) {
      setReplies(error.told?.replies ?? [])
      setSaid({ problem: error.message })
    }
  }
  return html`<form onSubmit=${submit}>
    <h2>Send a request</h2>
    <label>Topic <input name="topic" required spellcheck=${false} placeholder="calculator" /></label>
    <label>Payload <textarea name="payload" rows="4" spellcheck=${false} placeholder="2 + 2"></textarea></label>
    <div class="pair"><label>Replies: a number, or all <input name="replies" defaultValue="1" pattern="[0-9]+|all" /></label>
      <label>Seconds to wait <input name="timeout" type="number" min="0.1" step="0.1" defaultValue="5" /></label></div>
    <p class="actions"><button class="first">Send</button></p>
    <${Said} said=${said} />
    <ul class="list">${replies.map((reply) => html`<li><pre tabindex="0">${shown(reply.payload ?? reply.payload_base64 ?? reply.value)}</pre></li>`)}</ul>
  </form>`
}

// What a change of metadata would do to the standing queries of all subscribers: said before it is done.
function Describe({ id: first }) {
  const form = useRef(null)
  const [said, setSaid] = useState(null)
  const [preview, setPreview] = useState(null)
  const [now, setNow] = useState(null)
  const [known, setKnown] = useState([])
  const given = () => {
    const fields = new FormData(form.current)
    return { id: fields.get("id").trim(), patch: JSON.parse(fields.get("metadata") || "{}") }
  }
  const look = (id) => (AN_ID.test(id) ? get(`/v1/producers/${id.toLowerCase()}`).then(setNow, () => setNow(null)) : setNow(null))
  useEffect(() => {
    get("/v1/producers", { limit: OFFERED }).then((told) => setKnown(told.producers), () => {})
    if (first) look(first)
  }, [first])
  async function attempt(act) {
    try {
      setSaid(null)
      await act(given())
    } catch (error) {
      setSaid({ problem: error instanceof SyntaxError ? "metadata is a JSON object, such as {\"Room\": \"410\"}" : error.message })
    }
  }
  const foresee = () => attempt(async ({ id, patch }) => setPreview(await call("POST", `/v1/preview/${id}`, {}, { body: JSON.stringify(patch) })))
  const describe = () => attempt(async ({ id, patch }) => {
    const told = await call("PATCH", `/v1/producers/${id}`, {}, { body: JSON.stringify(patch) })
    setPreview(null)
    setNow(told)
    setSaid({ text: `It has ${plural(Object.keys(told.metadata).length, "key")} now.` })
  })
  const forget = () => attempt(async ({ id }) => {
    if (!confirm(`Forget producer ${id}? All its metadata is deleted.`)) return
    await call("DELETE", `/v1/producers/${id}`)
    setNow(null)
    setSaid({ text: "It is forgotten." })
  })
  return html`<form ref=${form} onSubmit=${(event) => (event.preventDefault(), describe())}>
    <h2>Describe a producer</h2>
    <label>Producer <input name="id" required list="known-producers" spellcheck=${false} autocomplete="off" defaultValue=${first} placeholder="2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"
      onInput=${(event) => (setPreview(null), look(event.target.value.trim()))} /></label>
    <datalist id="known-producers">${known.map((each) => html`<option value=${each.id}>${shown(each.metadata.Name ?? each.metadata.Station ?? "", 60)}</option>`)}</datalist>
    ${now && html`<p class="quiet">It has <code>${shown(JSON.stringify(now.metadata), 600)}</code></p>`}
    <label>Metadata to merge, as JSON; null deletes a key <textarea name="metadata" rows="4" spellcheck=${false} placeholder='{"Room": "410", "Floor": null}' onInput=${() => setPreview(null)}></textarea></label>
    <p class="actions"><button class="first">Describe</button> <button type="button" onClick=${foresee}>Preview</button> <button type="button" onClick=${forget}>Forget</button></p>
    ${preview && html`<p role="status">This brings it into ${plural(preview.enters, "subscription")} and takes it out of ${count(preview.leaves)}.</p>`}
    <${Said} said=${said} />
  </form>`
}



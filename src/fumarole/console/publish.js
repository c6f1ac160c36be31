// Publish a message, ask with a request, describe or forget a producer.
import { html, useEffect, useRef, useState } from "/vendor/preact-htm.js"
import { call, topicPath } from "/api.js"
import { count, plural, shown } from "/text.js"

export function Publish({ options }) {
  return html`<section class="publish"><${Message} topic=${options.topic ?? ""} /><${Request} /><${Describe} /></section>`
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
    <label>Topic <input name="topic" required defaultValue=${topic} placeholder="volcanoes.usa.atka" /></label>
    <label>Payload <textarea name="payload" rows="4"></textarea></label>
    <label>Headers, one a line <textarea name="headers" rows="2" placeholder="Unit: celsius"></textarea></label>
    <label class="inline"><input type="checkbox" name="retain" /> retain: keep it as the newest of its topic</label>
    <label>Repeat every so many seconds (0: once) <input name="repeat" type="number" min="0" step="0.1" defaultValue="0" /></label>
    <button class="first">Publish</button>
    ${repeating > 0 && html`<button type="button" onClick=${stop}>Stop repeating</button>`}
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
    <label>Topic <input name="topic" required /></label>
    <label>Payload <textarea name="payload" rows="2"></textarea></label>
    <label>Replies <input name="replies" defaultValue="1" /></label>
    <label>Seconds to wait <input name="timeout" type="number" min="0.1" step="0.1" defaultValue="5" /></label>
    <button class="first">Send</button>
    <${Said} said=${said} />
    <ul class="list">${replies.map((reply) => html`<li><pre>${shown(reply.payload ?? reply.payload_base64 ?? reply.value)}</pre></li>`)}</ul>
  </form>`
}

// What a change of metadata would do to the standing query of the reader: said before it is done.
function Describe() {
  const form = useRef(null)
  const [said, setSaid] = useState(null)
  const [preview, setPreview] = useState(null)
  const given = () => {
    const fields = new FormData(form.current)
    return { id: fields.get("id").trim(), patch: JSON.parse(fields.get("metadata") || "{}") }
  }
  async function attempt(act) {
    try {
      setSaid(null)
      await act(given())
    } catch (error) {
      setSaid({ problem: error instanceof SyntaxError ? "metadata is a JSON object, such as {\"Room\": \"410\"}" : error.message })
    }
  }
  const look = () => attempt(async ({ id, patch }) => setPreview(await call("POST", `/v1/preview/${id}`, {}, { body: JSON.stringify(patch) })))
  const describe = () => attempt(async ({ id, patch }) => {
    const told = await call("PATCH", `/v1/producers/${id}`, {}, { body: JSON.stringify(patch) })
    setPreview(null)
    setSaid({ text: `It has ${plural(Object.keys(told.metadata).length, "key")} now.` })
  })
  const forget = () => attempt(async ({ id }) => {
    if (!confirm(`Forget producer ${id}? All its metadata is deleted.`)) return
    await call("DELETE", `/v1/producers/${id}`)
    setSaid({ text: "It is forgotten." })
  })
  return html`<form ref=${form} onSubmit=${(event) => (event.preventDefault(), describe())}>
    <h2>Describe a producer</h2>
    <label>Producer <input name="id" required placeholder="2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60" /></label>
    <label>Metadata to merge, as JSON; null deletes a key <textarea name="metadata" rows="4" placeholder='{"Room": "410", "Floor": null}'></textarea></label>
    <button class="first">Describe</button> <button type="button" onClick=${look}>Preview</button> <button type="button" onClick=${forget}>Forget</button>
    ${preview && html`<p role="status">This brings it into ${plural(preview.enters, "subscription")} and takes it out of ${count(preview.leaves)}.</p>`}
    <${Said} said=${said} />
  </form>`
}



// The calls of the web door (docs/reference/http.md), as any client could make them.

export class Problem extends Error {
  constructor(told, status) {
    super(told.detail || told.title || `the server answered ${status}`)
    this.status = status
    this.position = told.position
    this.told = told
  }
}

let namespace = ""
let whenUnauthorized = () => {}

export function chooseNamespace(name) {
  namespace = name
}

export function onUnauthorized(call) {
  whenUnauthorized = call
}

export function address(path, options = {}) {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(options)) if (value !== undefined && value !== "") query.set(name, value)
  if (namespace) query.set("namespace", namespace)
  const text = query.toString()
  return text ? `${path}?${text}` : path
}

async function refusal(response) {
  let told = {}
  try {
    told = await response.json()
  } catch {
    told = { detail: `${response.status} ${response.statusText}` }
  }
  if (response.status === 401) whenUnauthorized()
  return new Problem(told, response.status)
}

export async function call(method, path, options = {}, { body, headers, signal } = {}) {
  const response = await fetch(address(path, options), { method, body, headers, signal, credentials: "same-origin" })
  if (!response.ok) throw await refusal(response)
  return response.status === 204 ? null : response.json()
}

export const get = (path, options, more) => call("GET", path, options, more)

export function topicPath(topic) {
  return topic.split(".").map(encodeURIComponent).join("/")
}

// One subscription as server-sent events. It connects again by itself; `on.state` hears "open", "lost" and problems.
// With `most` it takes about so many events in a second. EventSource would not show why a query is refused, so the stream is read by hand.
export class Stream {
  constructor(options, on, most = Infinity) {
    this.options = options
    this.most = most
    this.on = on
    this.stopped = new AbortController()
    this.lastId = ""
    this.run()
  }

  stop() {
    this.stopped.abort()
  }

  async run() {
    let pause = 250
    while (!this.stopped.signal.aborted) {
      try {
        await this.listen(() => (pause = 250))
      } catch (error) {
        if (this.stopped.signal.aborted) return
        if (error instanceof Problem && error.status < 500 && error.status !== 429) {
          this.on.state?.("refused", error)
          return
        }
        this.on.state?.("lost", error)
      }
      if (this.stopped.signal.aborted) return
      await new Promise((done) => setTimeout(done, pause))
      pause = Math.min(pause * 2, 5000)
    }
  }

  async listen(opened) {
    const headers = { Accept: "text/event-stream" }
    if (this.lastId) headers["Last-Event-ID"] = this.lastId
    const signal = this.stopped.signal
    const response = await fetch(address("/v1/stream", this.options), { headers, signal, credentials: "same-origin" })
    if (!response.ok) throw await refusal(response)
    opened()
    this.on.state?.("open")
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
    let rest = ""
    let second = 0
    let heard = 0
    for (;;) {
      const { value, done } = await reader.read()
      if (done) break
      const frames = (rest + value).split("\n\n")
      rest = frames.pop()
      for (const frame of frames) this.hear(frame)
      const now = performance.now()
      if (now - second > 1000) [second, heard] = [now, 0]
      heard += frames.length
      // What does not fit the connection meanwhile, the server drops and counts.
      if (heard > this.most) await new Promise((done) => setTimeout(done, 1000 - (now - second)))
    }
    this.on.state?.("lost", new Error("the server closed the stream"))
  }

  hear(frame) {
    let kind = "message"
    let data = ""
    for (const line of frame.split("\n")) {
      if (line.startsWith("event: ")) kind = line.slice(7)
      else if (line.startsWith("data: ")) data += line.slice(6)
      else if (line.startsWith("id: ")) this.lastId = line.slice(4)
    }
    if (data) this.on[kind]?.(JSON.parse(data))
  }
}

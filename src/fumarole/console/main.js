// The console: one page with a view for each question. The view and what was asked are in the address, so that it can be
// shared. A hidden tab closes its stream and asks for nothing.
import { html, render, useEffect, useState } from "/vendor/preact-htm.js"
import { call, chooseNamespace, get, onUnauthorized } from "/api.js"
import { Archive } from "/archive.js"
import { Ask } from "/ask.js"
import { ClusterView } from "/cluster.js"
import { Consumers } from "/consumers.js"
import { Overview } from "/overview.js"
import { go, link, place } from "/place.js"
import { Publish } from "/publish.js"
import { count, shown } from "/text.js"
import { Topics } from "/topics.js"

const VIEWS = [
  ["overview", "Overview", Overview],
  ["ask", "Ask", Ask],
  ["topics", "Topics", Topics],
  ["publish", "Publish", Publish],
  ["consumers", "Consumers", Consumers],
  ["cluster", "Cluster", ClusterView],
  ["archive", "Archive", Archive],
]

function useVisible() {
  const [visible, setVisible] = useState(!document.hidden)
  useEffect(() => {
    const changed = () => setVisible(!document.hidden)
    document.addEventListener("visibilitychange", changed)
    return () => document.removeEventListener("visibilitychange", changed)
  }, [])
  return visible
}

function Login({ done, problem }) {
  const [text, setText] = useState(problem)
  async function submit(event) {
    event.preventDefault()
    const form = new FormData(event.target)
    const user = form.get("user")
    const secret = form.get("secret")
    const encoded = btoa(String.fromCharCode(...new TextEncoder().encode(`${user}:${secret}`)))
    const authorization = user ? `Basic ${encoded}` : `Bearer ${secret}`
    try {
      await call("POST", "/v1/session", {}, { headers: { Authorization: authorization } })
      done()
    } catch (error) {
      setText(error.message)
    }
  }
  return html`<main class="login">
    <form class="panel" onSubmit=${submit}>
      <h1><img src="/icon.svg" alt="" width="32" height="32" /> Fumarole</h1>
      <label>User <input name="user" autocomplete="username" autofocus /></label>
      <label>Password, or a token without a user
        <input name="secret" type="password" autocomplete="current-password" required /></label>
      <button class="first">Sign in</button>
      ${text && html`<p class="problem" role="alert">${text}</p>`}
    </form>
  </main>`
}

function Namespaces({ chosen, choose, me }) {
  const [all, setAll] = useState([])
  useEffect(() => {
    if (!me.admin) return
    get("/v1/namespaces").then((told) => setAll(told.namespaces), () => setAll([]))
  }, [me.admin, chosen])
  const isUsed = (each) => each.name === chosen || each.received > 0 || each.consumers > 0 || each.producers > 0
  const used = all.filter(isUsed)
  if (me.user || used.length < 2) return html`<span class="namespace">${me.namespace}</span>`
  const others = used.filter((each) => each.name !== chosen && each.received > 0)
  return html`<label class="namespace">Namespace
    <select value=${chosen} onChange=${(event) => choose(event.target.value)}>
      ${used.map((each) => html`<option value=${each.name}>${each.name} (${count(each.received)} messages)</option>`)}
    </select>
    ${others.length > 0 && html`<span class="hint" title=${others.map((each) => each.name).join(", ")}>
      ${others.length === 1 ? "another has" : `${others.length} others have`} traffic</span>`}
  </label>`
}

function App() {
  const [where, setWhere] = useState(place())
  const [me, setMe] = useState(null)
  const [login, setLogin] = useState("")
  const [problem, setProblem] = useState("")
  const visible = useVisible()

  useEffect(() => {
    const moved = () => setWhere(place())
    addEventListener("hashchange", moved)
    onUnauthorized(() => setLogin("sign in"))
    return () => removeEventListener("hashchange", moved)
  }, [])

  const namespace = where.options.namespace || ""
  chooseNamespace(namespace)
  async function enter() {
    try {
      setMe(await get("/v1/session"))
      setLogin("")
      setProblem("")
    } catch (error) {
      if (error.status === 401) setLogin("sign in")
      else setProblem(error.message)
    }
  }
  useEffect(() => {
    enter()
  }, [namespace])

  if (login) return html`<${Login} done=${enter} problem="" />`
  if (!me) return html`<main class="loading">${problem || "Connecting…"}</main>`

  const views = VIEWS.filter(([each]) => each !== "publish" || me.may_publish)
  const [name, , View] = views.find(([each]) => each === where.view) || VIEWS[1]
  const options = { ...where.options }
  delete options.namespace
  async function leave() {
    await call("DELETE", "/v1/session")
    setMe(null)
    setLogin("sign in")
  }
  function choose(other) {
    const text = new URLSearchParams(other === "default" ? {} : { namespace: other }).toString()
    location.hash = `#${name}${text ? `?${text}` : ""}`
  }
  return html`<a class="skip" href="#main" onClick=${(event) => {
      event.preventDefault()
      document.getElementById("main").focus()
    }}>Skip to the view</a>
    <header>
      <a class="brand" href=${link("overview")}><img src="/icon.svg" alt="" width="24" height="24" /> Fumarole</a>
      <nav aria-label="Views">
        ${views.map(([each, title]) => html`<a href=${link(each)}
          aria-current=${each === name ? "page" : undefined}>${title}</a>`)}
      </nav>
      <${Namespaces} chosen=${me.namespace} choose=${choose} me=${me} />
      <span class="node" title="the node that this page talks to">${shown(me.node, 40)}</span>
      ${me.user && html`<button onClick=${leave}>Sign out ${shown(me.user, 40)}</button>`}
    </header>
    <main id="main" tabindex="-1">
      <${View} key=${`${name} ${namespace}`} me=${me} options=${options} go=${go} visible=${visible} />
    </main>`
}

render(html`<${App} />`, document.getElementById("console"))

// Where the page is: the view and what was asked are in the address, so that it can be shared.

export function place() {
  const [view, text] = location.hash.slice(1).split("?")
  return { view: view || "ask", options: Object.fromEntries(new URLSearchParams(text || "")) }
}

// The address of a view, in the namespace that the page shows.
export function link(view, options = {}) {
  const kept = place().options.namespace
  const text = new URLSearchParams(kept ? { ...options, namespace: kept } : options).toString()
  return `#${view}${text ? `?${text}` : ""}`
}

export function go(view, options = {}) {
  location.hash = link(view, options)
}

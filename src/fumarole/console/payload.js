// How a payload is shown: as text, as JSON, as hexadecimal digits, and what is new in it.
import { number, shown } from "/text.js"

const HEX_BYTES = 512

export function payloadOf(message) {
  if (message.value !== undefined) return String(message.value)
  if (message.payload !== undefined) return message.payload
  if (message.payload_base64 !== undefined) return atob(message.payload_base64)
  return ""
}

export function brief(message) {
  if (typeof message.value === "number") return number(message.value)
  return shown(payloadOf(message), 40)
}

export function asNumber(text) {
  const value = text.trim() === "" ? NaN : Number(text)
  return Number.isFinite(value) ? value : null
}

function asObject(text) {
  try {
    const value = JSON.parse(text)
    return value && typeof value === "object" ? value : null
  } catch {
    return null
  }
}

export function written(message, form) {
  const text = payloadOf(message)
  if (form === "hex") {
    const isBinary = message.payload_base64 !== undefined
    const bytes = isBinary ? Uint8Array.from(text.slice(0, HEX_BYTES), (letter) => letter.charCodeAt(0)) : new TextEncoder().encode(text.slice(0, HEX_BYTES)).slice(0, HEX_BYTES)
    return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join(" ")
  }
  const object = form === "json" ? asObject(text) : null
  return shown(object ? JSON.stringify(object, null, 2) : text)
}

// The keys of a JSON object whose values are others than before, or by how much a number has changed.
export function changes(before, after) {
  if (!before) return []
  const [was, is] = [payloadOf(before), payloadOf(after)]
  const [low, high] = [asNumber(was), asNumber(is)]
  if (low !== null && high !== null) return low === high ? [] : [`${high > low ? "+" : "−"}${number(Math.abs(Number((high - low).toPrecision(6))))}`]
  const [one, other] = [asObject(was), asObject(is)]
  if (!one || !other) return []
  return [...new Set([...Object.keys(one), ...Object.keys(other)])]
    .filter((key) => JSON.stringify(one[key]) !== JSON.stringify(other[key]))
    .slice(0, 6)
    .map((key) => `${shown(key, 40)}: ${shown(one[key], 40) || "none"} → ${shown(other[key], 40) || "none"}`)
}

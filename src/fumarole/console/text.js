// What others sent, made safe and short for a person to read. Preact sets text as text, so markup in it is only letters;
// control characters and marks that turn the direction of writing are shown as codes.

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g
const LONGEST = 2000

export function shown(value, most = LONGEST) {
  const text = typeof value === "string" ? value : value === undefined || value === null ? "" : JSON.stringify(value)
  const short = text.length > most ? `${text.slice(0, most)}… (${count(text.length)} characters)` : text
  return short.replace(HIDDEN, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`)
}

export function number(value) {
  if (typeof value !== "number") return shown(value, 60)
  if (Number.isInteger(value) && Math.abs(value) < 1e12) return value.toLocaleString("en")
  return Math.abs(value) >= 1e6 || Math.abs(value) < 1e-3 ? value.toExponential(3) : String(Number(value.toPrecision(6)))
}

export function count(value) {
  return Math.round(value).toLocaleString("en")
}

export function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB"]
  let unit = 0
  while (bytes >= 1024 && unit < units.length - 1) (bytes /= 1024), unit++
  return `${unit ? bytes.toFixed(1) : Math.round(bytes)} ${units[unit]}`
}

export function age(seconds) {
  if (seconds === undefined || seconds === null) return "never"
  if (seconds < 1) return "now"
  if (seconds < 60) return `${Math.floor(seconds)} s`
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`
  return `${Math.floor(seconds / 86400)} d`
}

export function ago(seconds) {
  const text = age(seconds)
  return text === "now" || text === "never" ? text : `${text} ago`
}

export function plural(many, noun, nouns = `${noun}s`) {
  return `${count(many)} ${many === 1 ? noun : nouns}`
}

const PLAIN = /^[A-Za-z_~$/%.][\w~$/%.-]*$/

// A key as it is written in a query.
export function keyName(key) {
  return PLAIN.test(key) ? key : `\`${key}\``
}

// A value as it is written in a query.
export function quoted(value) {
  return typeof value === "string" ? `'${value.replaceAll("'", "''")}'` : String(value)
}

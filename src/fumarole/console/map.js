// Where producers are, when their metadata has `lat` and `lon`. The land is drawn from a file of ours: nothing is fetched
// from elsewhere. One unit is a tenth of a degree of latitude.
import { html, useEffect, useRef, useState } from "/vendor/preact-htm.js"
import { LAND } from "/vendor/land.js"
import { number, shown } from "/text.js"

const MOST = 2000
const NAMED = 60
const SMALLEST = 60 // units from top to bottom: a single station is not shown without its surroundings
const NARROW = 600 // pixels
const SHADES = 5

export function places(rows) {
  const found = []
  for (const row of rows) {
    const lat = row.metadata?.lat
    const lon = row.metadata?.lon
    if (typeof lat === "number" && typeof lon === "number" && Math.abs(lat) <= 90 && Math.abs(lon) <= 180) found.push({ row, lat, lon })
    if (found.length === MOST) break
  }
  return found
}

// What part of the earth is shown: all places with a margin, `shape` times as wide as high.
function frame(all, shape) {
  const lats = all.map((each) => each.lat * 10)
  const [south, north] = [Math.min(...lats), Math.max(...lats)]
  const squeeze = Math.max(0.3, Math.cos(((south + north) / 2 / 10) * (Math.PI / 180)))
  const lons = all.map((each) => each.lon * 10 * squeeze)
  const [west, east] = [Math.min(...lons), Math.max(...lons)]
  const height = Math.max((north - south) * 1.35, ((east - west) * 1.3) / shape, SMALLEST)
  return { left: (west + east - height * shape) / 2, top: -(south + north) / 2 - height / 2, width: height * shape, height, squeeze }
}

export function Map({ places: all, open }) {
  const [size, setSize] = useState({ width: 1000, height: 500 })
  const place = useRef(null)
  useEffect(() => {
    const resized = new ResizeObserver(([{ contentRect }]) => setSize({ width: contentRect.width || 1000, height: contentRect.height || 500 }))
    resized.observe(place.current)
    return () => resized.disconnect()
  }, [])
  const { left, top, width, height, squeeze } = frame(all, size.width < NARROW ? 1.3 : 2)
  const pixel = Math.max(width / size.width, height / size.height)
  const values = all.map(({ row }) => row.value).filter((value) => typeof value === "number").sort((one, other) => one - other)
  const shade = (value) => {
    if (typeof value !== "number" || values.length < 2) return "plain"
    return `shade${Math.min(SHADES - 1, Math.floor((SHADES * (value - values[0])) / (values.at(-1) - values[0] || 1)))}`
  }
  const step = [1, 2, 5, 10, 20, 50, 100, 200, 300].find((each) => height / each < 7) ?? 300
  const lines = (from, to, by) => Array.from({ length: Math.floor((to - from) / by) + 1 }, (_, at) => Math.ceil(from / by) * by + at * by)
  const dots = all.map(({ row, lat, lon }) => ({ row, x: lon * 10 * squeeze, y: -lat * 10, value: typeof row.value === "number" ? number(row.value) : "" }))
  return html`<div class="panel map"><svg ref=${place} viewBox=${`${left} ${top} ${width} ${height}`} role="group" aria-label="map of producers">
    ${[-3600, 0, 3600].filter((turn) => left < (turn + 2100) * squeeze && left + width > (turn - 2100) * squeeze)
      .map((turn) => html`<path class="land" d=${LAND} transform=${`scale(${squeeze} 1) translate(${turn} 0)`} />`)}
    ${lines(left, left + width, step * squeeze).map((x) => html`<line x1=${x} x2=${x} y1=${top} y2=${top + height} />`)}
    ${lines(top, top + height, step).map((y) => html`<line x1=${left} x2=${left + width} y1=${y} y2=${y} />`)}
    ${dots.map(({ row, x, y, value }) => html`<circle key=${row.id} cx=${x} cy=${y} r=${(all.length > 300 ? 4 : 7) * pixel} tabindex="0" role="button"
      class=${`${shade(row.value)}${row.gone ? " gone" : row.came ? " came" : ""}`} aria-label=${`producer ${row.id} ${value}`}
      onClick=${() => open(row.id)} onKeyDown=${(event) => event.key === "Enter" && open(row.id)}>
      <title>${label(row)}: ${value}</title></circle>`)}
    ${named(dots, pixel, left + width).map(({ row, x, y, value, isLeft }) => html`<text key=${row.id} text-anchor=${isLeft ? "end" : "start"} x=${x + (isLeft ? -11 : 11) * pixel} y=${y + 4 * pixel} font-size=${12.5 * pixel} stroke-width=${3 * pixel}>${label(row)} <tspan>${value}</tspan></text>`)}
  </svg>
  ${values.length > 1 && html`<p class="legend"><span class="value">${number(values[0])}</span> ${Array.from({ length: SHADES }, (_, at) => html`<i class=${`shade${at}`}></i>`)} <span class="value">${number(values.at(-1))}</span></p>`}
  </div>`
}

function label({ id, metadata }) {
  return shown(metadata.Name ?? metadata.Station ?? id.slice(0, 8), 24)
}

// Names that do not cover one another, first those of the dots on top; at the right edge they are left of their dots.
function named(dots, pixel, edge) {
  if (dots.length > NAMED) return []
  const taken = []
  const shownOnes = []
  for (const dot of [...dots].reverse()) {
    const { row, x, y, value } = dot
    const long = (20 + 7.5 * (label(row).length + value.length)) * pixel
    const isLeft = x + long > edge
    const box = { left: isLeft ? x - long : x, right: isLeft ? x : x + long, top: y - 9 * pixel, bottom: y + 9 * pixel }
    if (taken.some((each) => box.left < each.right && each.left < box.right && box.top < each.bottom && each.top < box.bottom)) continue
    taken.push(box)
    shownOnes.push({ ...dot, isLeft })
  }
  return shownOnes
}

// Where producers are, when their metadata has `lat` and `lon`. A plain grid: no tiles are fetched from elsewhere.
import { html } from "/vendor/preact-htm.js"
import { number, shown } from "/text.js"

const WIDTH = 900
const HEIGHT = 450

export function places(rows) {
  const found = []
  for (const row of rows) {
    const lat = row.metadata?.lat
    const lon = row.metadata?.lon
    if (typeof lat === "number" && typeof lon === "number" && Math.abs(lat) <= 90 && Math.abs(lon) <= 180) found.push({ row, lat, lon })
    if (found.length === 2000) break
  }
  return found
}

export function Map({ places: all, open }) {
  const lats = all.map((each) => each.lat)
  const lons = all.map((each) => each.lon)
  const margin = 0.05
  const bounds = (values) => {
    const low = Math.min(...values)
    const high = Math.max(...values)
    const more = Math.max((high - low) * margin, 0.01)
    return [low - more, high + more]
  }
  const [south, north] = bounds(lats)
  const [west, east] = bounds(lons)
  const x = (lon) => ((lon - west) / (east - west)) * WIDTH
  const y = (lat) => HEIGHT - ((lat - south) / (north - south)) * HEIGHT
  const lines = [0.25, 0.5, 0.75]
  return html`<svg class="map" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="group" aria-label="map of producers">
    ${lines.map((at) => html`<g class="grid"><line x1=${at * WIDTH} x2=${at * WIDTH} y1="0" y2=${HEIGHT} />
      <line y1=${at * HEIGHT} y2=${at * HEIGHT} x1="0" x2=${WIDTH} />
      <text x=${at * WIDTH + 3} y=${HEIGHT - 4}>${(west + at * (east - west)).toFixed(2)}°</text>
      <text x="3" y=${at * HEIGHT - 3}>${(north - at * (north - south)).toFixed(2)}°</text></g>`)}
    ${all.map(({ row, lat, lon }) => html`<circle key=${row.id} cx=${x(lon)} cy=${y(lat)} r=${all.length > 300 ? 4 : 7} tabindex="0" role="button"
      class=${row.gone ? "gone" : row.came ? "came" : ""} aria-label=${`producer ${row.id}`}
      onClick=${() => open(row.id)} onKeyDown=${(event) => event.key === "Enter" && open(row.id)}>
      <title>${shown(row.metadata.Name ?? row.id, 60)}: ${row.value === null ? "" : number(row.value)}</title></circle>`)}
  </svg>`
}

// Small lines beside numbers, and charts of values over time.
import { html, useEffect, useRef, useState } from "/vendor/preact-htm.js"

const WIDTH = 96
const HEIGHT = 22

export function Sparkline({ values, label }) {
  const points = values.filter((value) => Number.isFinite(value))
  if (points.length < 2) return html`<span class="sparkline empty"></span>`
  const low = Math.min(...points)
  const span = Math.max(...points) - low
  const step = (WIDTH - 2) / (points.length - 1)
  const path = points.map((value, at) => `${1 + at * step},${HEIGHT - 3 - (span ? (value - low) / span : 0.5) * (HEIGHT - 6)}`).join(" ")
  const [endX, endY] = path.slice(path.lastIndexOf(" ") + 1).split(",")
  return html`<svg class="sparkline" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label=${label || "recent values"}>
    <polygon points=${`1,${HEIGHT} ${path} ${WIDTH - 1},${HEIGHT}`} /><polyline points=${path} /><circle cx=${endX} cy=${endY} r="1.8" /></svg>`
}

const COLOURS = ["#d9480f", "#1971c2", "#2f9e44", "#9c36b5", "#e8590c", "#0c8599", "#c2255c", "#5f3dc4"]

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400] // seconds between two times of the axis

// Canvas does not follow the style sheet: a chart is made again when light becomes dark.
function useScheme() {
  const [dark] = useState(() => matchMedia("(prefers-color-scheme: dark)"))
  const [isDark, setIsDark] = useState(dark.matches)
  useEffect(() => {
    const changed = () => setIsDark(dark.matches)
    dark.addEventListener("change", changed)
    return () => dark.removeEventListener("change", changed)
  }, [])
  return isDark
}

// Lines over time: `series` is a list of {name, points: [[seconds, value], …]}. With `span` the chart shows so many
// seconds up to now. With `span` or `fromZero` its values begin at 0.
export function Chart({ series, height = 220, label, span = 0, fromZero = span > 0 }) {
  const place = useRef(null)
  const plot = useRef(null)
  const names = series.map((each) => each.name).join("\n")
  const isDark = useScheme()
  useEffect(() => {
    const style = getComputedStyle(document.documentElement)
    const ink = style.getPropertyValue("--muted").trim()
    const line = style.getPropertyValue("--line").trim()
    const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, size: 4 }, font: "12px system-ui" }
    const scales = {}
    if (span) scales.x = { range: () => [Date.now() / 1000 - span, Date.now() / 1000] }
    if (fromZero) scales.y = { range: (_, __, most) => [0, Math.max(most * 1.1, 1)] }
    const made = new window.uPlot(
      {
        width: place.current.clientWidth || 600,
        height,
        cursor: { drag: { x: true, y: false } },
        legend: { show: series.length > 1, live: false },
        scales,
        axes: [{ ...axis, incrs: STEPS, values: (_, times) => times.map(clock), space: 90, size: 34 }, { ...axis, size: 60 }],
        series: [
          {},
          ...series.map((each, at) => ({ label: each.name, stroke: COLOURS[at % COLOURS.length], fill: fromZero || series.length === 1 ? `${COLOURS[at % COLOURS.length]}14` : undefined, width: 1.75, spanGaps: true, points: { show: false } })),
        ],
      },
      merged(series),
      place.current,
    )
    plot.current = made
    const resized = new ResizeObserver(([entry]) => made.setSize({ width: entry.contentRect.width, height }))
    resized.observe(place.current)
    return () => {
      resized.disconnect()
      made.destroy()
    }
  }, [names, height, isDark])
  useEffect(() => plot.current?.setData(merged(series)), [series])
  return html`<div class="chart" role="img" aria-label=${label} ref=${place}></div>`
}

const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB")

// uPlot wants one list of times, and for each line a value or null at each of them.
function merged(series) {
  const times = [...new Set(series.flatMap((each) => each.points.map(([time]) => time)))].sort((a, b) => a - b)
  const lines = series.map((each) => {
    const at = new Map(each.points)
    return times.map((time) => at.get(time) ?? null)
  })
  return [times, ...lines]
}

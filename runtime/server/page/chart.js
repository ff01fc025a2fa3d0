// @ts-check
// Charts as SVG, from the counts that this page has seen since it was opened.
import { rate } from './format.js'
import { html } from './html.js'
import { diesPerSecond } from './words.js'

/** Points that are kept for a topic: five minutes, one every two seconds. */
const POINTS = 150
/** Topics whose points are kept. */
const TOPICS = 1000

/** @typedef {{ at: number, done: number, failed: number }} Point */
/** @type {Map<string, Point[]>} */
const seen = new Map()

const key = (topic) => `${topic.tenant}/${topic.topic}`

/** Adds what the topics do now. */
export function record(topics, at = Date.now()) {
  for (const topic of topics.slice(0, TOPICS)) {
    const per = topic.rates?.per_second
    if (!per) continue
    const points = seen.get(key(topic)) ?? []
    points.push({ at, done: per.acked ?? 0, failed: (per.retried ?? 0) + diesPerSecond(topic) })
    if (points.length > POINTS) points.shift()
    seen.set(key(topic), points)
  }
}

export const pointsOf = (topic) => seen.get(key(topic)) ?? []

/** A line through values, in a box of this width and height. */
function line(values, width = 100, height = 20, most = Math.max(...values, 0.001)) {
  const step = width / Math.max(1, values.length - 1)
  return values.map((value, n) => `${n ? 'L' : 'M'}${(n * step).toFixed(1)} ${(height - 1 - (value / most) * (height - 2)).toFixed(1)}`).join('')
}

/** Jobs done a second, small. */
export function Spark({ topic }) {
  const points = pointsOf(topic).slice(-60)
  const last = points.at(-1)
  if (!last) return html`<span class="none">–</span>`
  const label = `${rate(last.done)} jobs done a second`
  return html`<span class="spark">${rate(last.done)}
    <svg viewBox="0 0 100 20" width="60" height="16" preserveAspectRatio="none" role="img" aria-label=${label}><path d=${line(points.map((p) => p.done))} /></svg></span>`
}

/** Jobs done and attempts failed a second, with a table of the same numbers. */
export function Throughput({ topic }) {
  const points = pointsOf(topic)
  if (points.length < 2) return html`<p class="empty">The chart begins in a few seconds.</p>`
  const most = Math.max(0.001, ...points.map((p) => Math.max(p.done, p.failed)))
  return html`
    <figure class="chart">
      <svg viewBox="0 0 600 100" preserveAspectRatio="none" role="img" aria-label="Jobs done and attempts failed a second, since this page was opened">
        <path class="grid" d="M0 .5H600M0 50H600M0 99.5H600" />
        <path d=${line(points.map((p) => p.done), 600, 100, most)} />
        <path class="failed" d=${line(points.map((p) => p.failed), 600, 100, most)} />
      </svg>
      <figcaption><span class="key">done</span><span class="key failed">failed</span><span>at most ${rate(most)} a second</span></figcaption>
    </figure>`
}

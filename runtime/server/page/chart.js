// @ts-check
// Charts as SVG, of the history that the server keeps.
import { getSeldom, inTenant } from './api.js'
import { absolute, DAY, dayOf, number, short } from './format.js'
import { html } from './html.js'
import { Table } from './parts.js'
import { now } from './state.js'

/** A line of steps through values of at most `most`, in a box of 600 by 100, and back to where it began. */
const line = (values, most) =>
  `M-2 102${values.map((value, n) => `V${99 - (98 * value) / most}H${n === values.length - 1 ? 602 : ((n + 1) * 600) / values.length}`).join('')}V102`

/** What was done in the last minutes and days, in a topic or in all; null where the server does not know. */
export const historyOf = (tenant, topic, signal) => getSeldom(inTenant(tenant, 'history') + (topic ? `?topic=${encodeURIComponent(topic)}` : ''), signal)

/** The next of 2, 4, 10, 20, 40, 100 and so on: half of it is round, too. */
function top(value) {
  const step = 10 ** Math.floor(Math.log10(value))
  return step * ([1, 2, 4].find((times) => times * step >= value) ?? 10)
}

/** Counts over time, with both axes, and the same numbers as a table. A point is its time in words and a count for each name. */
function Chart({ label, names, points }) {
  const most = top(Math.max(2, ...points.flatMap(([, ...counts]) => counts)))
  const width = 600 / points.length
  return html`
    <figure class="chart">
      <figcaption><strong>${label}</strong>${names.map((name) => html`<span class=${`key ${name}`}>${name}</span>`)}</figcaption>
      <div class="y" aria-hidden="true"><span>${short(most)}</span><span>${short(most / 2)}</span><span>0</span></div>
      <svg viewBox="0 0 600 100" preserveAspectRatio="none" role="img" aria-label=${`${label}, from ${points[0][0]} to ${points.at(-1)[0]}`}>
        <path class="grid" d="M0 .5H600M0 50H600M0 99.5H600" />
        ${names.map((name, n) => html`<path class=${name} d=${line(points.map((point) => point[n + 1]), most)} />`)}
        ${points.map(([at, ...counts], n) => html`<rect x=${n * width} width=${width} height="100"><title>${at}: ${counts.map((count, n) => `${number(count)} ${names[n]}`).join(', ')}</title></rect>`)}
      </svg>
      <div class="x" aria-hidden="true"><span>${points[0][0]}</span><span>${points.at(-1)[0]}</span></div>
      <details><summary>Numbers</summary><${Table} label=${label} heads=${['When', ...names.map((name) => `#${name}`)]} rows=${points.map(([at, ...counts]) => [at, at, ...counts.map(number)]).reverse()} /></details>
    </figure>`
}

const clock = (at) => absolute(at).slice(11, 16)

/** The days that are shown. */
const SHOWN_DAYS = 31

/** The charts of a history. */
export const History = ({ of }) => of && html`
  <h2>History</h2><div class="charts">
  ${of.minutes.length > 0 && html`
    <${Chart} label="Jobs a minute" names=${['done', 'failed', 'pushed']} points=${of.minutes.map((one) => [clock(one.at_ms), one.done, one.failed, one.enqueued])} />
    <${Chart} label="Jobs at the time" names=${['ready', 'running']} points=${of.minutes.map((one) => [clock(one.at_ms), one.ready, one.running])} />`}
  <${Chart} label="Attempts a day" names=${['attempts']} points=${Array.from({ length: SHOWN_DAYS }, (_, n) => {
    const day = dayOf(now() - (SHOWN_DAYS - 1 - n) * DAY)
    return [day, of.days.find((one) => one.day === day)?.attempts ?? 0]
  })} /></div>`

// @ts-check
// The schedules of a tenant: when each fires, and what came of its last ticks.
import { act, ask } from '../actions.js'
import { get, inTenant, post, remove } from '../api.js'
import { absolute } from '../format.js'
import { html } from '../html.js'
import { Button, State, Table, Time, TopicLink } from '../parts.js'
import { toJob } from '../route.js'
import { statesOf } from '../states.js'

/** Ticks that are shown, of the last ones and of the next ones. */
const TICKS = 4

const at = ({ tenant, topic, name }, ...action) => inTenant(tenant, 'schedules', topic, name, ...action)

const change = (of, action, words) =>
  act(async () => {
    const { job } = await post(at(of, action), {})
    return `${of.name} ${words}${job ? ` ${job}` : ''}.`
  })

const removed = (of) =>
  ask({
    title: `Delete the schedule ${of.name}?`,
    text: 'The jobs that it has pushed stay.',
    verb: 'Delete the schedule',
    run: async () => (await remove(at(of)), `${of.name} is deleted.`),
  })

const ScheduleActions = ({ of }) => html`
  <${Button} run=${() => change(of, 'run', 'has pushed')} label=${`Run now: ${of.name}`}>Run now<//>
  ${of.paused
    ? html`<${Button} run=${() => change(of, 'resume', 'goes on')} label=${`Resume ${of.name}`}>Resume<//>`
    : html`<${Button} run=${() => change(of, 'pause', 'is paused')} label=${`Pause ${of.name}`}>Pause<//>`}
  ${of.origin === 'api' && html`<${Button} run=${() => removed(of)} label=${`Delete ${of.name}`}>Delete<//>`}`

/** What came of a tick: the word for the latest, icons for those before. */
function Firing({ tenant, firing: { result, job, tick_ms: tick }, states, short }) {
  const state = html`<span title=${absolute(tick)}><${State} name=${result === 'job' ? states.get(job) ?? 'pushed' : result} short=${short} /></span>`
  return job ? html`<a href=${toJob(tenant, job)}>${state}</a>` : state
}

const Next = ({ of: { paused, moving, upcoming_ms: next } }) =>
  paused ? html`<${State} name="paused" />` : moving ? 'in another store' : next.slice(0, TICKS).map((at, n) => html`<${n ? 'div' : 'b'} class=${n ? 'none' : ''}><${Time} at=${at} /><//>`)

/** @type {import('./all.js').Page} */
export const schedules = {
  title: () => 'Schedules',
  load: async ({ params: { tenant } }, signal) => {
    const { schedules } = await get(inTenant(tenant, 'schedules'), signal)
    const jobs = schedules.flatMap(({ firings }) => firings.slice(0, TICKS).flatMap(({ job }) => job ?? []))
    return { schedules, states: await statesOf(tenant, jobs, signal) }
  },
  rows: (data) => data.schedules.map(({ topic, name }) => `${topic}/${name}`),
  view: ({ data: { schedules, states } }) => html`
    <${Table} label="Schedules" none="No schedules." heads=${['Schedule', 'Topic', 'When', 'Next', 'Last', '!']}
      rows=${schedules.map((of) => [
        `${of.topic}/${of.name}`,
        of.name,
        html`<${TopicLink} of=${of} />`,
        html`<span class="text">${of.in_words || of.schedule.cron} <span class="none">${of.schedule.cron && (of.schedule.timezone ?? 'UTC')}</span></span>`,
        html`<${Next} of=${of} />`,
        of.firings.slice(0, TICKS).map((firing, n) => html`<${Firing} tenant=${of.tenant} firing=${firing} states=${states} short=${n > 0} />`),
        html`<${ScheduleActions} of=${of} />`,
      ])} />`,
}

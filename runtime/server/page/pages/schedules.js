// @ts-check
// The schedules of a tenant: when each fires, and what came of its last ticks.
import { act, ask } from '../actions.js'
import { get, inTenant, post, remove } from '../api.js'
import { absolute } from '../format.js'
import { html } from '../html.js'
import { Button, State, Table, Time, TopicLink } from '../parts.js'
import { toJob } from '../route.js'
import { statesOf } from '../states.js'

/** Ticks that are shown, of the last ones. */
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

/** When it fires next, by the clock of its time zone; the ticks after that where there is room. */
const Next = ({ of: { paused, moving, schedule, upcoming_ms: next } }) => {
  if (paused) return html`<${State} name="paused" />`
  if (moving) return 'in another store'
  const zone = schedule.timezone ?? 'UTC'
  return next[0] ? html`<span title=${next.slice(1).map((at) => absolute(at, zone)).join('\n')}><${Time} at=${next[0]} zone=${zone} whole /></span>` : 'never'
}

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
    <${Table} label="Schedules" none="No schedules." heads=${['Schedule', '*When', 'Next', 'Last', '!']}
      rows=${schedules.map((of) => [
        `${of.topic}/${of.name}`,
        html`${of.name}<small><${TopicLink} of=${of} /></small>`,
        html`${of.in_words || of.schedule.cron} <small>${of.schedule.cron && `${of.schedule.cron} ${of.schedule.timezone ?? 'UTC'}`}</small>`,
        html`<${Next} of=${of} />`,
        of.firings.slice(0, TICKS).map((firing, n) => html`<${Firing} tenant=${of.tenant} firing=${firing} states=${states} short=${n > 0} />`),
        html`<${ScheduleActions} of=${of} />`,
      ])} />`,
}

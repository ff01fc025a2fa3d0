// @ts-check
// One job: where it is and why, its life so far, its failure, its body and its result.
import { cancel, cancelTree, deleteDead, kill, respawn, seal } from '../actions.js'
import { get, getIf, inTenant, inTopic } from '../api.js'
import { Attempts, attemptsOf, versionOf } from '../attempts.js'
import { Calls } from '../calls.js'
import { changeJob, runNow } from '../change.js'
import { span } from '../format.js'
import { Flow, flowOf } from '../flow.js'
import { html } from '../html.js'
import { Icon } from '../icons.js'
import { Banner, Button, Elapsed, Facts, JobLink, Name, Table, Time, TopicLink, Words } from '../parts.js'
import { Payload } from '../payload.js'
import { toTopic, trailOf } from '../route.js'
import { may, now } from '../state.js'
import { endOf, REASONS, stateWord, WAYS } from '../words.js'

const DIGITS = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'

/** When an id was made, if it says so: one that Gristmill makes is a ULID. */
const timeOf = (id) => /^0[0-9A-HJKMNP-TV-Z]{25}$/.test(id) && [...id.slice(0, 10)].reduce((sum, digit) => sum * 32 + DIGITS.indexOf(digit), 0)

/**
 * The steps of a job's life that are known: icon, words, and when. When a finished job was pushed, its latest attempt knows, or its id.
 * @returns {any[]}
 */
function steps(view, latest) {
  const { job, state, attempts, last_failure: failure, worker, cancelled } = view
  const failed = state === 'running' ? attempts - 1 : attempts
  const pushed = job?.enqueued_at_ms ?? (latest ? latest.enqueued_us / 1000 : timeOf(view.id))
  /** @type {Record<string, any>} */
  const last = {
    ready: [attempts ? 'Ready for its next attempt' : 'Ready'],
    delayed: attempts && ['Next attempt', view.until_ms],
    waiting: ['Waits for other jobs'],
    running: [html`Attempt ${attempts} runs on <span class="id">${worker}</span>${cancelled ? '; it was asked to stop' : ''}. Its lease ends`, view.lease_until_ms],
    dead: ['Given up', view.since_ms],
    finished: [stateWord(endOf(view)), view.ended?.at_ms],
  }
  return [
    pushed && ['pushed', 'Pushed', pushed],
    job?.due_at_ms > job?.enqueued_at_ms && ['delayed', job.due_at_ms > now() ? 'Due' : 'Became due', job.due_at_ms],
    failure && failed > 1 && ['failed', `${failed - 1} earlier ${failed === 2 ? 'attempt' : 'attempts'}`],
    failure && ['failed', `Attempt ${Math.max(1, failed)} failed: ${REASONS[failure.reason] ?? failure.reason}`],
    last[state] && [state, ...last[state]],
  ].filter((step) => step)
}

const Timeline = ({ view, latest }) => html`
  <ol class="timeline">${steps(view, latest).map(([icon, words, at]) => html`
    <li><${Icon} name=${icon} /><div>${words} ${at && html`<${Time} at=${at} whole />`}</div></li>`)}</ol>`

const Failure = ({ failure }) => html`
  <section class="failure"><h2>Last failure</h2>
    <p><b class="id">${failure.code}</b> ${failure.code !== failure.reason && html`<span class="none">${REASONS[failure.reason] ?? failure.reason}</span>`}</p>
    ${failure.message && html`<pre class="text">${failure.message}</pre>`}
    ${failure.parked_by && html`<p>It runs again by itself once another version than <span class="id">${failure.parked_by}</span> serves.</p>`}
    ${failure.backtrace && html`<h3>Backtrace</h3><pre class="text">${failure.backtrace}</pre>`}
    ${failure.context && html`<h3>Context</h3><${Payload} of=${failure.context} name="context" />`}
  </section>`

function JobActions({ view, tenant, flow }) {
  const { state, id, job } = view
  const spec = job?.spec
  const open = state !== 'dead' && WAYS.includes(state)
  const waits = open && state !== 'running'
  return html`<p class="actions">
    ${may('admin') && state === 'delayed' && html`<${Button} kind="main" run=${() => runNow(tenant, id)}>Run now<//>`}
    ${may('admin') && state === 'dead' && html`<${Button} kind="main" run=${() => respawn(spec, id)}>Respawn<//>`}
    ${may('push') && spec && html`<a class="button" href=${toTopic(spec, 'push') + `?from=${encodeURIComponent(id)}`}>Edit and push anew</a>`}
    ${may('admin') && waits && html`<${Button} run=${() => changeJob(tenant, view)}>Change<//>`}
    ${may('admin') && open && html`<${Button} run=${() => cancel(tenant, id)}>Cancel<//>`}
    ${may('admin') && open && flow && html`<${Button} run=${() => cancelTree(tenant, id)}>Cancel the tree<//>`}
    ${may('push') && state === 'waiting' && flow?.nodes[0].waits_for?.open && html`<${Button} kind="main" run=${() => seal(tenant, id)}>Seal<//>`}
    ${may('admin') && state === 'running' && html`<${Button} kind="danger" run=${() => kill(tenant, id)}>Kill<//>`}
    ${may('admin') && state === 'dead' && html`<${Button} kind="danger" run=${() => deleteDead(spec, id)}>Delete<//>`}
  </p>`
}

const About = ({ view, tenant, topic, latest }) => {
  const spec = view.job?.spec ?? {}
  const of = view.job?.spec ?? view.ended ?? latest
  return html`<${Facts} of=${[
  ['Topic', of && html`<${TopicLink} of=${of} />`],
  ['Version', latest?.component && html`<span class="id">${versionOf(latest)}</span>`],
  ['Ran for', latest?.ended_us && span((latest.ended_us - latest.started_us) / 1000)],
  ['Runs for', topic && html`<${Elapsed} of=${view} topic=${topic} />`],
  ['Attempts', spec.attempts_max ? `${view.attempts} of ${spec.attempts_max}` : view.attempts],
  ['Priority', spec.priority],
  ['Batch', spec.batch && html`<${JobLink} tenant=${tenant} id=${spec.batch} />`],
  ['Key', spec.key],
  ['Unique value', spec.unique?.value],
  ['May start within', spec.ttl_ms ? span(spec.ttl_ms) : null],
  ['Result is kept', spec.keep_result_ms ? span(spec.keep_result_ms) : null],
]} />`
}

const Metadata = ({ of }) => of.length > 0 && html`<h2>Metadata</h2>
  <${Table} label="Metadata" heads=${['Name', 'Value']} rows=${of.map(([name, value], n) => [n, html`<${Name} of=${name} />`, html`<span class="text">${value}</span>`])} />`

/** @type {import('./all.js').Page} */
export const job = {
  title: ({ params }) => `Job ${params.id}`,
  under: 'topics',
  trail: ({ params: { tenant } }, data) => trailOf({ tenant, topic: data && (data.view.job?.spec ?? data.view.ended ?? data.attempts?.attempts[0])?.topic }),
  status: ({ view }) => [view.state === 'finished' ? endOf(view) : view.state, stateWord(view.state === 'finished' ? endOf(view) : view.state)],
  load: async ({ params: { tenant, id } }, signal) => {
    const view = await get(inTenant(tenant, 'jobs', id), signal)
    const waits = ['ready', 'delayed', 'waiting'].includes(view.state)
    const [why, flow, attempts, topic] = await Promise.all([
      waits && getIf(inTenant(tenant, 'jobs', id, 'why'), signal),
      flowOf(tenant, id, signal),
      attemptsOf(tenant, { job: id }, signal),
      view.state === 'running' ? get(inTopic(view.job.spec), signal) : null,
    ])
    return { view, why, flow, attempts, topic }
  },
  view: ({ place: { params }, data: { view, why, flow, attempts, topic } }) => {
    const failure = view.last_failure ?? view.result?.failure
    const latest = attempts?.attempts[0]
    return html`
    ${why && html`<${Banner} kind=${why.idle && why.idle.reason !== 'empty' ? 'warn' : ''} icon=${view.state}><${Words} of=${why.detail} /><//>`}
    <${JobActions} view=${view} tenant=${params.tenant} flow=${flow} />
    <${About} view=${view} tenant=${params.tenant} topic=${topic} latest=${latest} />
    ${flow && html`<${Flow} tenant=${params.tenant} flow=${flow} />`}
    <div class="split"><div>
      ${failure && html`<${Failure} failure=${failure} /><${Calls} tenant=${params.tenant} view=${view} />`}
      ${view.result?.output && html`<h2>Result</h2><${Payload} of=${view.result.output} name="result" />`}
      ${view.job && html`<h2>Body</h2><${Payload} of=${view.job.spec.body} name="body" /><${Metadata} of=${view.job.spec.metadata} />`}
      <${Attempts} head="Recent attempts" of=${(view.attempts > 0 || view.state === 'finished') && attempts} said=${failure?.message} />
    </div><div>
      <h2>Life so far</h2><${Timeline} view=${view} latest=${latest} />
    </div></div>`
  },
}

// @ts-check
// One job: where it is and why, its life so far, its failure, its body and its result.
import { cancel, cancelTree, deleteDead, kill, respawn, seal } from '../actions.js'
import { get, getIf, inTenant, inTopic } from '../api.js'
import { Attempts, attemptsOf } from '../attempts.js'
import { changeJob, runNow } from '../change.js'
import { absolute, span } from '../format.js'
import { Flow, flowOf } from '../flow.js'
import { html } from '../html.js'
import { Icon } from '../icons.js'
import { Banner, Button, Elapsed, Facts, JobLink, Table, Time, TopicLink } from '../parts.js'
import { Payload } from '../payload.js'
import { toTopic } from '../route.js'
import { may, now } from '../state.js'
import { endOf, REASONS, stateWord, WAYS } from '../words.js'

/**
 * The steps of a job's life that are known: icon, words, and when.
 * @returns {any[]}
 */
function steps(view) {
  const { job, state, attempts, last_failure: failure, worker, cancelled } = view
  const failed = state === 'running' ? attempts - 1 : attempts
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
    job && ['pushed', 'Pushed', job.enqueued_at_ms],
    job?.due_at_ms > job?.enqueued_at_ms && ['delayed', job.due_at_ms > now() ? 'Due' : 'Became due', job.due_at_ms],
    failure && failed > 1 && ['warn', `${failed - 1} earlier ${failed === 2 ? 'attempt' : 'attempts'}`],
    failure && ['warn', `Attempt ${Math.max(1, failed)} failed: ${REASONS[failure.reason] ?? failure.reason}`],
    last[state] && [state, ...last[state]],
  ].filter((step) => step)
}

const Timeline = ({ view }) => html`
  <ol class="timeline">${steps(view).map(([icon, words, at]) => html`
    <li><${Icon} name=${icon} /><div>${words} ${at && html`<${Time} at=${at} /> <span class="none">${absolute(at)}</span>`}</div></li>`)}</ol>`

const Failure = ({ failure }) => html`
  <section class="failure"><h2>Last failure</h2>
    <p><b class="id">${failure.code}</b> <span class="none">${REASONS[failure.reason] ?? failure.reason}</span></p>
    <pre class="text">${failure.message}</pre>
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

const About = ({ view, spec, tenant, attempts, topic }) => html`<${Facts} of=${[
  ['Topic', html`<${TopicLink} of=${spec} />`],
  ['Runs for', topic && html`<${Elapsed} of=${view} topic=${topic} />`],
  ['Attempts', spec.attempts_max ? `${attempts} of ${spec.attempts_max}` : attempts],
  ['Priority', spec.priority],
  ['Batch', spec.batch && html`<${JobLink} tenant=${tenant} id=${spec.batch} />`],
  ['Key', spec.key],
  ['Unique value', spec.unique?.value],
  ['May start within', spec.ttl_ms !== null ? span(spec.ttl_ms) : null],
  ['Result is kept', spec.keep_result_ms !== null ? span(spec.keep_result_ms) : null],
]} />`

const Metadata = ({ of }) => of.length > 0 && html`<h2>Metadata</h2>
  <${Table} label="Metadata" heads=${['Name', 'Value']} rows=${of.map(([name, value], n) => [n, name, html`<span class="text">${value}</span>`])} />`

/** @type {import('./all.js').Page} */
export const job = {
  title: ({ params }) => `Job ${params.id}`,
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
  view: ({ place: { params }, data: { view, why, flow, attempts, topic } }) => html`
    ${why && html`<${Banner} kind=${why.idle && why.idle.reason !== 'empty' ? 'warn' : ''} icon=${view.state}>${why.detail}<//>`}
    <${JobActions} view=${view} tenant=${params.tenant} flow=${flow} />
    ${view.job && html`<${About} view=${view} spec=${view.job.spec} tenant=${params.tenant} attempts=${view.attempts} topic=${topic} />`}
    ${flow && html`<${Flow} tenant=${params.tenant} flow=${flow} />`}
    <h2>Life so far</h2><${Timeline} view=${view} />
    <${Attempts} head="Recent attempts" of=${attempts} />
    ${view.last_failure && html`<${Failure} failure=${view.last_failure} />`}
    ${view.result?.failure && !view.last_failure && html`<${Failure} failure=${view.result.failure} />`}
    ${view.result?.output && html`<h2>Result</h2><${Payload} of=${view.result.output} name="result" />`}
    ${view.job && html`<h2>Body</h2><${Payload} of=${view.job.spec.body} name="body" /><${Metadata} of=${view.job.spec.metadata} />`}`,
}

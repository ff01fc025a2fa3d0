// @ts-check
// What a job waits for, and what waits for it: three columns, of which every node is a link.
import { get, inTenant } from './api.js'
import { counted } from './format.js'
import { html } from './html.js'
import { Progress, State } from './parts.js'
import { toJob } from './route.js'
import { statesOf } from './states.js'

/** Jobs that are drawn on each side. */
const DRAWN = 40

/** The jobs around a job, with their states; null if there are none. */
export async function flowOf(tenant, id, signal) {
  const { waits_for: before, waiters: after } = await get(`${inTenant(tenant, 'jobs', id, 'links')}?limit=${DRAWN}`, signal)
  const jobs = before?.jobs ?? []
  const open = [...jobs.filter((job) => !job.ended).map((job) => job.id), ...after.slice(0, DRAWN)]
  const states = await statesOf(tenant, open, signal)
  for (const job of jobs) if (job.ended) states.set(job.id, job.ended)
  return before || after.length ? { before, after, states } : null
}

const Nodes = ({ tenant, label, ids, total, states }) => html`
  <section><h3>${label}</h3>
    <ul>${ids.map((id) => html`<li><a class="id" href=${toJob(tenant, id)}>${id}</a> ${states.get(id) && html`<${State} name=${states.get(id)} />`}</li>`)}</ul>
    ${total > ids.length && html`<p class="none">and ${total - ids.length} more</p>`}
  </section>`

const Ended = ({ of: { total, ended, failed, open } }) => html`
  <${Progress} max=${total} value=${ended} label="Jobs that have ended">${ended} of ${counted(total, 'job')} ended${failed > 0 && `, ${failed} of them not done`}${open && '; not sealed'}<//>`

export const Flow = ({ tenant, view: { id, state }, flow: { before, after, states } }) => html`
  <h2>Workflow</h2>
  ${before && html`<${Ended} of=${before} />`}
  <div class="flow">
    ${before?.total > 0 && html`<${Nodes} tenant=${tenant} label=${state === 'waiting' ? 'It waits for' : 'It waited for'} ids=${before.jobs.map((job) => job.id)} total=${before.total} states=${states} />`}
    <section><h3>This job</h3><ul><li><span class="id">${id}</span> <${State} name=${state} /></li></ul></section>
    ${after.length > 0 && html`<${Nodes} tenant=${tenant} label="These wait for it" ids=${after.slice(0, DRAWN)} total=${after.length} states=${states} />`}
  </div>`

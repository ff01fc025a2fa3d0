// @ts-check
// Lists of jobs, page by page: of a topic in one state, of a query, and of all that run.
import { allDead, cancel, deleteDead, respawn } from '../actions.js'
import { get, inTenant } from '../api.js'
import { counted, number } from '../format.js'
import { html } from '../html.js'
import { Button, Field, Form, JobLink, State, Table, Tabs, Time, TopicLink } from '../parts.js'
import { toTopic } from '../route.js'
import { may, state } from '../state.js'
import { stateWord } from '../words.js'
import { BulkActions } from './bulk.js'

const PAGE = 50

/** What a list says about when, by state: the head of the column, and the point in time. @type {Record<string, [string, (job: any) => number]>} */
const WHEN = {
  ready: ['Due', (job) => job.job.due_at_ms],
  delayed: ['Due', (job) => job.until_ms],
  running: ['Lease ends', (job) => job.lease_until_ms],
  dead: ['Dead', (job) => job.since_ms],
}

const RowActions = ({ job: { id, state, job } }) =>
  state === 'dead'
    ? html`<${Button} run=${() => respawn(job.spec, id)} label=${`Respawn ${id}`}>Respawn<//><${Button} run=${() => deleteDead(job.spec, id)} label=${`Delete ${id}`}>Delete<//>`
    : html`<${Button} run=${() => cancel(job.spec.tenant, id)} label=${`Cancel ${id}`}>Cancel<//>`

/** A table of jobs: in one state, or of any; of one topic, or of `any`. */
export function Jobs({ jobs, state, any }) {
  const runs = state === 'running'
  const when = state ? WHEN[state][0] : 'When'
  const heads = ['Job', ...(any ? ['Topic'] : []), ...(state ? [] : ['State']), when, '#Attempts', 'Priority', '~Key', runs ? '~Worker' : '~Last failure', '!']
  const rows = jobs.map((view) => {
    const { id, attempts, worker, last_failure: failure, job: { spec } } = view
    return [
      id,
      html`<${JobLink} tenant=${spec.tenant} id=${id} />`,
      ...(any ? [html`<${TopicLink} of=${spec} />`] : []),
      ...(state ? [] : [html`<${State} name=${view.state} />`]),
      view.state === 'waiting' ? 'after others' : html`<${Time} at=${WHEN[view.state][1](view)} />`,
      attempts,
      spec.priority,
      spec.key,
      runs ? worker : failure && html`<b>${failure.code}</b> ${failure.message}`,
      html`<${RowActions} job=${view} />`,
    ]
  })
  return html`<${Table} label="Jobs" heads=${heads} rows=${rows} none="No jobs here." />`
}

/** Respawn and delete for all dead jobs of a topic. @param {{ topic: { tenant: string, topic: string }, count: number }} props */
const AllDead = ({ topic, count }) => may('admin') && count > 0 && html`
  <${Button} run=${() => allDead(topic, 'Respawn', count)}>Respawn all<//>
  <${Button} kind="danger" run=${() => allDead(topic, 'Delete', count)}>Delete all<//>`

function askFor(form) {
  const q = String(form.get('q')).trim()
  location.hash = `/${state.place?.path}` + (q && `?q=${encodeURIComponent(q)}`)
}

/** The field of a query. */
export const QueryField = ({ place: { query } }) => html`
  <${Form} run=${askFor}><${Field} label="Query" hint="Such as reason:timeout age>1h body.user.id:42. Press Enter."><input name="q" type="search" key=${query.get('q')} defaultValue=${query.get('q')} autocomplete="off" /><//><//>`

/** The links of a list, and how far a query came. */
export const Pages = ({ place: { path, query }, data: { next, looked_at: looked } }) => {
  const page = (after) => `#/${path}?${new URLSearchParams({ q: query.get('q') ?? '', after })}`
  return html`<p class="actions">
    ${looked !== undefined && html`<span class="none">${counted(looked, 'job')} looked at</span>`}
    ${query.get('after') && html`<a class="button" href=${page('')}>First page</a>`}
    ${next && html`<a class="button" href=${page(next)}>Next page</a>`}</p>`
}

/** What a list is asked for. */
export const asked = (query, more) => new URLSearchParams([...query, ...Object.entries(more)].filter(([, value]) => value))

/** Where a page begins is fixed, so there it would only lose rows; and a query costs the store something. */
const once = ({ query }) => !!(query.get('after') || query.get('q'))
const rows = (data) => data.jobs.map((job) => job.id)

/** @type {import('./all.js').Page} */
export const jobs = {
  title: ({ params }) => `${stateWord(params.state)} jobs of ${params.topic}`,
  load: async ({ params: { tenant, topic, state }, query }, signal) => {
    const [listed, counts] = await Promise.all([
      get(`${inTenant(tenant, 'topics', topic, 'jobs')}?${asked(query, { state, limit: PAGE })}`, signal),
      get(inTenant(tenant, 'topics', topic), signal),
    ])
    return { ...listed, counts }
  },
  rows,
  once,
  view: ({ place, data }) => html`
    <${Tabs} label="States" of=${Object.keys(WHEN).map((state) => [toTopic(place.params, state), `${stateWord(state)} ${data.counts[state]}`, state === place.params.state])} />
    <${QueryField} place=${place} />
    <${BulkActions} place=${place} within=${`state:${place.params.state} topic:${place.params.topic} `} />
    ${place.params.state === 'dead' && !place.query.get('q') && html`<p class="actions"><${AllDead} topic=${place.params} count=${data.counts.dead} /></p>`}
    <${Jobs} jobs=${data.jobs} state=${place.params.state} />
    <${Pages} place=${place} data=${data} />`,
}

/** Jobs of all topics, in one state if it is given. @returns {import('./all.js').Page} */
const ofTenant = (title, state) => {
  const within = state ? `state:${state} ` : ''
  return {
    title: () => title,
    load: ({ params, query }, signal) => {
      const where = asked(query, { limit: PAGE })
      where.set('q', within + (query.get('q') ?? ''))
      return get(`${inTenant(params.tenant, 'jobs')}?${where}`, signal)
    },
    rows,
    once,
    view: ({ place, data }) => html`<${QueryField} place=${place} /><${BulkActions} place=${place} within=${within} /><${Jobs} jobs=${data.jobs} state=${state} any /><${Pages} place=${place} data=${data} />`,
  }
}

export const find = ofTenant('Find jobs')
export const running = ofTenant('Running jobs', 'running')

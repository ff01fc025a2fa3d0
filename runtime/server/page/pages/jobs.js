// @ts-check
// Lists of jobs, page by page: of a topic in one state, of a query, and of all that run.
import { cancel, deleteDead, respawn } from '../actions.js'
import { get, inTenant, inTopic } from '../api.js'
import { counted, number } from '../format.js'
import { html } from '../html.js'
import { Button, Elapsed, Field, Form, JobLink, Name, State, Table, Tabs, Time, TopicLink } from '../parts.js'
import { toFind, toTopic, trailOf } from '../route.js'
import { draw, may, state } from '../state.js'
import { countOf, endOf, statesIn, stateWord } from '../words.js'
import { BulkActions } from './bulk.js'
import { topicsOf } from './overview.js'

const PAGE = 50

/** What a list says about when, by state: the head of the column, and the point in time. @type {Record<string, [string, ((job: any) => number)?]>} */
const WHEN = {
  ready: ['Due', (job) => job.job.due_at_ms],
  delayed: ['Due', (job) => job.until_ms],
  running: ['Runs for'],
  dead: ['Dead', (job) => job.since_ms],
}

const RowActions = ({ job: { id, state, job } }) =>
  !job ? null : state === 'dead'
    ? html`<${Button} run=${() => respawn(job.spec, id)} label=${`Respawn ${id}`}>Respawn<//><${Button} run=${() => deleteDead(job.spec, id)} label=${`Delete ${id}`}>Delete<//>`
    : html`<${Button} run=${() => cancel(job.spec.tenant, id)} label=${`Cancel ${id}`}>Cancel<//>`

function choose(id) {
  if (!state.chosen.delete(id)) state.chosen.add(id)
  draw()
}

const Pick = ({ id }) => may('admin') && html`<input type="checkbox" aria-label=${`Select ${id}`} checked=${state.chosen.has(id)} onChange=${() => choose(id)} />`

/** A table of jobs: in one state, or of any; of one of these topics, or of `any`. */
export function Jobs({ jobs, topics, state, any }) {
  const runs = state === 'running'
  const heads = ['Job', ...(state ? [] : ['State']), state ? WHEN[state][0] : 'When', '#Attempts', runs ? '~Worker' : '~Last failure', '!']
  const rows = jobs.map((view) => {
    const { id, attempts, worker, last_failure: failure, job, ended } = view
    // Of a job that is over, only its end is known.
    const spec = job?.spec ?? { priority: 'normal', ...ended }
    const more = [spec.priority !== 'normal' && `${spec.priority} priority`, spec.key && html`key <${Name} of=${spec.key} />`].filter(Boolean)
    return [
      id,
      html`${job && html`<${Pick} id=${id} />`}<${JobLink} tenant=${spec.tenant} id=${id} />${(any || more[0]) && html`<small>${any && html`<span><${TopicLink} of=${spec} most=${24} /></span>`}${more.map((one) => html`<span>${one}</span>`)}</small>`}`,
      ...(state ? [] : [html`<${State} name=${view.state === 'finished' ? endOf(view) : view.state} />`]),
      view.state === 'waiting' ? 'after others' : view.state === 'running' ? html`<${Elapsed} of=${view} topic=${topics.find((one) => one.topic === spec.topic)} />` : html`<${Time} at=${view.state === 'finished' ? ended?.at_ms : WHEN[view.state][1](view)} whole />`,
      spec.attempts_max ? `${attempts} of ${spec.attempts_max}` : attempts,
      runs ? worker : failure && html`<span title=${failure.message}><b>${failure.code}</b> ${failure.message}</span>`,
      html`<${RowActions} job=${view} />`,
    ]
  })
  return html`<${Table} label="Jobs" heads=${heads} rows=${rows} none="No jobs here." />`
}

/** Goes to the same place with what a form says as its query. */
export function askFor(form) {
  const said = asked(form, {})
  location.hash = `/${state.place?.path}${said.size ? `?${said}` : ''}`
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

/** A list with what is above and below it. */
const List = ({ place, data, within, of, any }) => html`
  <${QueryField} place=${place} />
  <${BulkActions} place=${place} within=${within} of=${of} />
  <${Jobs} ...${data} state=${of} any=${any} />
  <${Pages} place=${place} data=${data} />`

/** @type {import('./all.js').Page} */
export const jobs = {
  title: ({ params }) => `${stateWord(params.state)} jobs of ${params.topic}`,
  under: 'topics',
  trail: ({ params }) => trailOf(params),
  load: async ({ params, query }, signal) => {
    const [listed, topic] = await Promise.all([get(`${inTopic(params, 'jobs')}?${asked(query, { state: params.state, limit: PAGE })}`, signal), get(inTopic(params), signal)])
    return { ...listed, topics: [topic] }
  },
  rows,
  once,
  ask: QueryField,
  view: ({ place, place: { params }, data }) => html`
    <${Tabs} label="States" of=${Object.keys(WHEN).map((state) => [toTopic(params, state), `${stateWord(state)} ${data.topics[0][state]}`, state === params.state])} />
    <${List} place=${place} data=${data} within=${`state:${params.state} topic:${params.topic} `} of=${params.state} />`,
}

/** Jobs of all topics, in one state if it is given. @returns {import('./all.js').Page} */
const ofTenant = (title, state) => {
  const within = state ? `state:${state} ` : ''
  return {
    title: () => title,
    load: async ({ params, query }, signal) => {
      const where = asked(query, { limit: PAGE })
      where.set('q', within + (query.get('q') ?? ''))
      const [listed, topics] = await Promise.all([get(`${inTenant(params.tenant, 'jobs')}?${where}`, signal), topicsOf(params.tenant, signal)])
      return { ...listed, topics }
    },
    rows,
    once,
    ask: QueryField,
    view: ({ place, place: { params, query }, data }) => html`
      <${Tabs} label="States" of=${statesIn(data.topics).map((one) => [toFind(params.tenant, `state:${one}`), `${stateWord(one)} ${number(data.topics.reduce((sum, topic) => sum + countOf(topic, one), 0))}`, (state ?? query.get('q')?.slice(6)) === one])} />
      <${List} place=${place} data=${data} within=${within} of=${state} any />`,
  }
}

export const find = ofTenant('Find jobs')
export const running = ofTenant('Running jobs', 'running')

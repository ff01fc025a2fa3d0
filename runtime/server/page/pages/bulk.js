// @ts-check
// Actions on all jobs that fit a query: they are counted first, then a person starts them.
import { act, ask } from '../actions.js'
import { get, inTenant, post } from '../api.js'
import { askChange } from '../change.js'
import { counted, facts, number } from '../format.js'
import { html } from '../html.js'
import { Button, Field, JobLink, Progress, Table, Time } from '../parts.js'
import { to, toFind } from '../route.js'
import { may } from '../state.js'
import { stateWord } from '../words.js'

/** With more jobs, the person types how many these are. */
const MANY = 100

/** Has the jobs of a query counted, and goes to where the count is shown. */
async function count(tenant, wanted) {
  await post(inTenant(tenant, 'bulk'), wanted)
  location.hash = to('t', tenant, 'bulk')
  return 'The jobs are counted.'
}

/** What can be done with all jobs of a place's query; `within` is a query in front of it. */
export const BulkActions = ({ place: { params, query }, within }) => {
  const q = query.get('q')
  const begin = (action, change) => count(params.tenant, { q: within + q, action, ...change })
  return may('admin') && q && html`
    <p class="actions">${['Cancel', 'Respawn', 'Delete'].map((word) => html`<${Button} run=${() => act(() => begin(word.toLowerCase()))}>${word} all …<//>`)}
      <${Button} run=${() => askChange('Change all jobs of the query?', (change) => begin('change', change))}>Change all …<//></p>`
}

const order = (of, tenant, verb, document = {}) => post(inTenant(tenant, 'bulk', of.id, verb), document)

const start = (of, tenant) =>
  ask({
    title: `${stateWord(of.action)} ${counted(of.matched, 'job')}?`,
    text: of.q,
    verb: stateWord(of.action),
    fields: of.matched > MANY && html`<${Field} label=${`Type ${of.matched} to go on`}><input required autofocus autocomplete="off" inputmode="numeric" pattern=${of.matched} /><//>`,
    run: async () => (await order(of, tenant, 'start', { expect: of.matched }), 'It has begun.'),
  })

const abort = (of, tenant) => act(async () => (await order(of, tenant, 'abort'), 'It is aborted.'))

/** One that is not over. */
const Open = ({ of, tenant }) => {
  const { state, matched, changed, samples } = of
  const over = changed + Object.values(of.skipped).reduce((sum, count) => sum + count, 0)
  return html`
    <section class="banner"><div><h2>${stateWord(of.action)} all jobs of <a class="id" href=${toFind(tenant, of.q)}>${of.q}</a></h2>
      ${of.priority && html`<p>to priority ${of.priority}</p>`}${of.due && html`<p>due ${of.due === 'now' ? of.due : html`<${Time} at=${of.due.at_ms ?? of.created_at_ms + of.due.after_ms} />`}</p>`}
      ${state === 'running'
        ? html`<${Progress} max=${matched} value=${over} label="Jobs that are done with">${number(over)} of ${counted(matched, 'job')}<//>`
        : html`<p>${counted(matched, 'job')} ${state === 'counted' ? 'fit' : 'fit so far'}, of ${number(of.looked_at)} looked at${samples.length > 0 && ', such as '}${samples.map(({ id }) => html` <${JobLink} tenant=${tenant} id=${id} />`)}</p>`}
      ${may('admin') && html`<p class="actions">
        ${state === 'counted' && matched > 0 && html`<${Button} kind="main" run=${() => start(of, tenant)}>${stateWord(of.action)} ${counted(matched, 'job')} …<//>`}
        <${Button} run=${() => abort(of, tenant)}>Abort<//></p>`}
    </div></section>`
}

const OPEN = ['counting', 'counted', 'running']

/** @type {import('./all.js').Page} */
export const bulk = {
  title: () => 'Bulk actions',
  load: ({ params }, signal) => get(inTenant(params.tenant, 'bulk'), signal),
  rows: (data) => data.bulk.filter((one) => !OPEN.includes(one.state)).map((one) => one.id),
  view: ({ place: { params: { tenant } }, data }) => {
    const open = data.bulk.filter((one) => OPEN.includes(one.state))
    return html`
    <p class="none">A <a href=${to('t', tenant, 'find')}>query</a> begins one.</p>
    ${open.map((of) => html`<${Open} key=${of.id} of=${of} tenant=${tenant} />`)}
    <h2>Ended</h2>
    <${Table} label="Bulk actions" none="None." heads=${['Ended', 'Action', '~Query', 'State', '#Fit', '#Changed', 'Skipped', 'By']} rows=${data.bulk.filter((one) => !open.includes(one)).map((of) => [
      of.id,
      html`<${Time} at=${of.ended_at_ms} />`,
      stateWord(of.action),
      html`<a class="id" href=${toFind(tenant, of.q)}>${of.q}</a>`,
      of.error ?? stateWord(of.state),
      number(of.matched),
      number(of.changed),
      facts(of.skipped).map((pair) => pair.join(' ')).join(', '),
      of.actor,
    ])} />`
  },
}

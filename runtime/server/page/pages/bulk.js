// @ts-check
// Actions on all jobs that fit a query: they are counted first, then a person starts them.
import { act, ask } from '../actions.js'
import { get, inTenant, post } from '../api.js'
import { askChange } from '../change.js'
import { counted, facts, number } from '../format.js'
import { html } from '../html.js'
import { Button, Count, Field, JobLink, Progress, Table, Time } from '../parts.js'
import { to, toFind } from '../route.js'
import { may, state } from '../state.js'
import { stateWord } from '../words.js'

/** With more jobs, the person types how many these are. */
const MANY = 100

/** Has the jobs of a query counted, and goes to where the count is shown. */
async function count(tenant, wanted) {
  await post(inTenant(tenant, 'bulk'), wanted)
  location.hash = to('t', tenant, 'bulk')
  return 'The jobs are being counted.'
}

export const beginBulk = (tenant, wanted) => act(() => count(tenant, wanted))

/** What can be done with jobs of a state. */
const DOABLE = { dead: ['Respawn', 'Delete'], running: ['Cancel'], ready: ['Cancel', 'Change'], delayed: ['Cancel', 'Change'] }

/**
 * What can be done with all jobs of a place's query; `within` is a query in front of it, of jobs in the state `of` if there is one. Selected
 * jobs are meant alone. Without a query all dead jobs of a list can be meant: the server wants a condition, and any id is one.
 */
export const BulkActions = ({ place: { params, query }, within, of }) => {
  const { chosen } = state
  const q = chosen.size ? `id:${[...chosen].join()}` : query.get('q') || (of === 'dead' ? 'id:*' : '')
  const wanted = (word, change) => ({ q: within + q, action: word.toLowerCase(), ...change })
  const begin = (word) =>
    word === 'Change'
      ? askChange('Change all jobs of the query?', (change) => count(params.tenant, wanted(word, change)))
      : beginBulk(params.tenant, wanted(word))
  return may('admin') && q && html`
    <p class="actions">${(DOABLE[of] ?? ['Cancel', ...DOABLE.dead, 'Change']).map((word) => html`<${Button} run=${() => begin(word)}>${word} ${chosen.size ? `${chosen.size} selected` : 'all'} …<//>`)}</p>`
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
  const { state: how, matched, changed, samples } = of
  const over = changed + Object.values(of.skipped).reduce((sum, count) => sum + count, 0)
  return html`
    <section class="banner"><div><h2>${stateWord(of.action)} all jobs of <a class="id" href=${toFind(tenant, of.q)}>${of.q}</a></h2>
      ${of.priority && html`<p>to priority ${of.priority}</p>`}${of.due && html`<p>due ${of.due === 'now' ? of.due : html`<${Time} at=${of.due.at_ms ?? of.created_at_ms + of.due.after_ms} />`}</p>`}
      ${how === 'running'
        ? html`<${Progress} max=${matched} value=${over} label="Jobs that are done with">${number(over)} of ${counted(matched, 'job')}<//>`
        : html`<p>${counted(matched, 'job')} ${how === 'counted' ? 'fit' : 'fit so far'}, of ${number(of.looked_at)} looked at${samples.length > 0 && ', such as '}${samples.map(({ id }) => html` <${JobLink} tenant=${tenant} id=${id} />`)}</p>`}
      ${may('admin') && html`<p class="actions">
        ${how === 'counted' && matched > 0 && html`<${Button} kind="main" run=${() => start(of, tenant)}>${stateWord(of.action)} ${counted(matched, 'job')} …<//>`}
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
      html`<${Count} count=${of.matched} href=${toFind(tenant, of.q)} what="jobs of the query" />`,
      number(of.changed),
      facts(of.skipped).map((pair) => pair.join(' ')).join(', '),
      of.actor,
    ])} />`
  },
}

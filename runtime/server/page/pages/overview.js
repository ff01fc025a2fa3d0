// @ts-check
// The overview of a tenant: what needs attention, then all its topics.
import { get, inTenant, send } from '../api.js'
import { History, historyOf } from '../chart.js'
import { absolute, number, rate, span } from '../format.js'
import { html } from '../html.js'
import { Icon } from '../icons.js'
import { Condition, Count, Handler, Table, Tiles, TopicLink, Words } from '../parts.js'
import { to, toEvents, toFind, toState, toTopic } from '../route.js'
import { isOperator, now } from '../state.js'
import { concerns, countOf, failuresOf, isBad, statesIn, stateWord } from '../words.js'

/** Rows of the table that are drawn at once; a filter finds the others. */
const ROWS = 300
/** Concerns that are shown at once. */
const FIRST = 5

/** The topics of a tenant, by name. */
export const topicsOf = async (tenant, signal) => (await get(inTenant(tenant, 'topics'), signal)).topics

/** What `/readyz` says, as concerns: of stores, and of files of components. */
async function readiness(signal) {
  const concern = (rank, what, why) => ({ rank, size: 0, href: '', what, why })
  try {
    const lines = (await (await send('readyz', { signal })).text()).split('\n').filter((line) => line && line !== 'ready')
    const stores = lines.filter((line) => !/handler/.test(line))
    const files = lines.filter((line) => /refused/.test(line))
    return {
      broken: stores.length > 0 && concern(Infinity, 'A store takes no jobs', stores.join('; ')),
      files: files.length > 0 && concern(0, 'A component is not used', `${files.join('; ').replace(/: \w+ names? takes? a token/, '')}; \`gristmill check\` says why`),
    }
  } catch (error) {
    if (!error.status) throw error
    return { broken: concern(Infinity, 'The server is not ready', error.message) }
  }
}

/** What needs attention: of the server, and of these topics. Why a component is not used, its topics say; one that never served may have none. */
const concernsOf = ({ topics, ready: { broken, files } }) => [
  ...(broken ? [broken] : []),
  ...concerns(topics, now()),
  ...(files && !topics.some((topic) => topic.refused || topic.lacking.length) ? [files] : []),
]

const Concerns = ({ of }) => html`
  <ul class="concerns">${of.map((one) => html`
    <li class=${isBad(one) ? 'alarm' : 'warn'}><${Icon} name=${isBad(one) ? 'alarm' : 'warn'} />
      <div>${one.href ? html`<a href=${one.href}>${one.what}</a>` : html`<strong>${one.what}</strong>`} <span><${Words} of=${one.why} /></span></div></li>`)}</ul>`

const Attention = ({ of }) => html`
  <section aria-labelledby="attention">
    <h2 id="attention">Needs attention</h2>
    ${of.length === 0 && html`<p class="well"><${Icon} name="good" />Nothing does.</p>`}
    ${of.length > 0 && html`<${Concerns} of=${of.slice(0, FIRST)} />`}
    ${of.length > FIRST && html`<details><summary>${of.length - FIRST} more</summary><${Concerns} of=${of.slice(FIRST)} /></details>`}
  </section>`

function Sums({ tenant, topics }) {
  const sum = (of) => topics.reduce((all, topic) => all + of(topic), 0)
  const tiles = statesIn(topics).map((state) => [state, stateWord(state), number(sum((topic) => countOf(topic, state))), /run|dead/.test(state) ? to('t', tenant, state) : toFind(tenant, `state:${state}`)])
  return html`<${Tiles} of=${[...tiles, ...ratesOf(topics, (kind) => `${to('t', tenant, 'events')}?kind=${kind}`)]} />`
}

/** What is summed up in these topics a second; unknown before the server has counted twice. */
const perSecond = (topics, of) => (topics.some((topic) => topic.rates) ? rate(topics.reduce((sum, topic) => sum + of(topic), 0)) : '–')
const doneOf = (topic) => topic.rates?.per_second.acked ?? 0
const failedOf = (topic) => failuresOf(topic).failed

/** Tiles of what becomes of jobs a second in these topics; `href` is where events of a kind are. */
export const ratesOf = (topics, href) => [
  ['finished', 'Done/s', perSecond(topics, doneOf), href('job-completed')],
  ['failed', 'Failed/s', perSecond(topics, failedOf), href('job-retried')],
]

const Topics = ({ topics, none = NONE }) => html`
  <${Table} label="Topics" none=${none} heads=${['Topic', ...statesIn(topics).map((state) => `#${stateWord(state)}`), '#Oldest', '#Done/s', '#Failed/s', 'State', '?Handler']}
    rows=${topics.slice(0, ROWS).map((topic) => [
      topic.topic,
      html`<${TopicLink} of=${topic} most=${24} />`,
      ...statesIn(topics).map((state) => html`<${Count} count=${countOf(topic, state)} href=${toState(topic, state)} what=${state} kind=${state} />`),
      topic.oldest_ready_ms ? html`<a href=${toState(topic, 'ready')} title=${absolute(topic.oldest_ready_ms)}>${span(now() - topic.oldest_ready_ms)}</a>` : html`<span class="none">–</span>`,
      html`<a class=${doneOf(topic) ? '' : 'none'} href=${toEvents(topic, 'job-completed')}>${perSecond([topic], doneOf)}</a>`,
      html`<a class=${failedOf(topic) ? 'dead' : 'none'} href=${toTopic(topic)}>${perSecond([topic], failedOf)}</a>`,
      html`<${Condition} topic=${topic} />`,
      html`<${Handler} topic=${topic} />`,
    ])} />
  ${topics.length > ROWS && html`<p class="none">${number(topics.length - ROWS)} more topics: narrow the list by a name.</p>`}`

const NONE = html`No topics yet. Put a component, such as <code>greet.wasm</code>, into the handlers folder, or write a <code>[topics.greet]</code> into the manifest.`

/** @type {import('./all.js').Page} */
export const overview = {
  title: () => 'Overview',
  load: async ({ params }, signal) => {
    const [topics, ready, history] = await Promise.all([topicsOf(params.tenant, signal), isOperator() ? readiness(signal) : {}, historyOf(params.tenant, '', signal)])
    return { topics, ready, history }
  },
  rows: (data) => data.topics.map((topic) => topic.topic),
  view: ({ place, data }) => html`
    <${Attention} of=${concernsOf(data)} />
    <${Sums} tenant=${place.params.tenant} topics=${data.topics} />
    <${History} of=${data.history} />
    <h2>Topics</h2>
    <${Topics} topics=${data.topics} />`,
}

function narrow(event) {
  const text = event.target.value
  const place = location.hash.split('?')[0]
  history.replaceState(null, '', text ? `${place}?name=${encodeURIComponent(text)}` : place)
  dispatchEvent(new HashChangeEvent('hashchange'))
}

/** @type {import('./all.js').Page} */
export const topics = {
  title: () => 'Topics',
  load: async ({ params }, signal) => ({ topics: await topicsOf(params.tenant, signal) }),
  rows: overview.rows,
  view: ({ place, data }) => {
    const name = place.query.get('name') ?? ''
    const shown = data.topics.filter((topic) => topic.topic.includes(name))
    return html`
      <label class="field inline"><span>Name contains</span><input type="search" defaultValue=${name} onInput=${narrow} /></label>
      <${Topics} topics=${shown} none=${data.topics.length ? 'No topic has such a name.' : NONE} />`
  },
}

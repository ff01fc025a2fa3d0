// @ts-check
// The overview of a tenant: what needs attention, then all its topics.
import { get, inTenant } from '../api.js'
import { History, historyOf } from '../chart.js'
import { number, rate } from '../format.js'
import { html } from '../html.js'
import { Icon } from '../icons.js'
import { Count, Handler, Idle, Table, Tiles, Time, TopicLink } from '../parts.js'
import { to, toEvents, toFind, toState } from '../route.js'
import { isOperator, now } from '../state.js'
import { concerns, countOf, statesIn, stateWord } from '../words.js'

/** Rows of the table that are drawn at once; a filter finds the others. */
const ROWS = 300

/** The topics of a tenant, by name. */
export const topicsOf = async (tenant, signal) => (await get(inTenant(tenant, 'topics'), signal)).topics

/** What `/readyz` says, as a concern; null if all is well. */
async function readiness(signal) {
  const response = await fetch('readyz', { signal, cache: 'no-store' })
  if (response.ok) {
    // Handlers are concerns of their topics.
    const stores = (await response.text()).split('\n').filter((line) => line && line !== 'ready' && !/handler/.test(line))
    return stores.length ? { bad: true, what: 'A store takes no jobs', why: stores.join('; '), href: '' } : null
  }
  const { detail = '' } = await response.json().catch(() => ({}))
  return { bad: true, what: 'The server is not ready', why: detail, href: '' }
}

const Attention = ({ of }) => html`
  <section aria-labelledby="attention">
    <h2 id="attention">Needs attention</h2>
    ${of.length === 0 && html`<p class="well"><${Icon} name="good" />Nothing does.</p>`}
    <ul class="concerns">
      ${of.map((one) => html`
        <li class=${`banner ${one.bad ? 'bad' : 'warn'}`}><${Icon} name=${one.bad ? 'bad' : 'warn'} />
          <div>${one.href ? html`<a href=${one.href}>${one.what}</a>` : html`<strong>${one.what}</strong> `}<span>${one.why}</span></div></li>`)}
    </ul>
  </section>`

function Sums({ tenant, topics }) {
  const sum = (of) => topics.reduce((all, topic) => all + of(topic), 0)
  const tiles = statesIn(topics).map((state) => [state, stateWord(state), number(sum((topic) => countOf(topic, state))), /run|dead/.test(state) ? to('t', tenant, state) : toFind(tenant, `state:${state}`)])
  const done = rate(sum((topic) => topic.rates?.per_second.acked ?? 0))
  return html`<${Tiles} of=${[...tiles, ['finished', 'Done a second', done, to('t', tenant, 'events')]]} />`
}

const Topics = ({ topics, none = NONE }) => html`
  <${Table} label="Topics" none=${none} heads=${['Topic', ...statesIn(topics).map((state) => `#${stateWord(state)}`), '#Oldest', '#Done/s', 'State', 'Handler']}
    rows=${topics.slice(0, ROWS).map((topic) => [
      topic.topic,
      html`<${TopicLink} of=${topic} />`,
      ...statesIn(topics).map((state) => html`<${Count} count=${countOf(topic, state)} href=${toState(topic, state)} what=${state} kind=${state} />`),
      topic.oldest_ready_ms ? html`<a href=${toState(topic, 'ready')}><${Time} at=${topic.oldest_ready_ms} /></a>` : '–',
      html`<a href=${toEvents(topic, 'job-completed')}>${rate(topic.rates?.per_second.acked ?? 0)}</a>`,
      html`<${Idle} topic=${topic} />`,
      html`<${Handler} topic=${topic} />`,
    ])} />
  ${topics.length > ROWS && html`<p class="none">${number(topics.length - ROWS)} more topics: narrow the list by a name.</p>`}`

const NONE = html`No topics yet. Put a component, such as <code>greet.wasm</code>, into the handlers folder, or write a <code>[topics.greet]</code> into the manifest.`

/** @type {import('./all.js').Page} */
export const overview = {
  title: () => 'Overview',
  load: async ({ params }, signal) => {
    const [topics, ready, history] = await Promise.all([topicsOf(params.tenant, signal), isOperator() ? readiness(signal) : null, historyOf(params.tenant, '', signal)])
    return { topics, ready, history }
  },
  rows: (data) => data.topics.map((topic) => topic.topic),
  view: ({ place, data }) => html`
    <${Attention} of=${[...(data.ready ? [data.ready] : []), ...concerns(data.topics, now())]} />
    <${Sums} tenant=${place.params.tenant} topics=${data.topics} />
    <h2>Topics</h2>
    <${Topics} topics=${data.topics} />
    <${History} of=${data.history} />`,
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

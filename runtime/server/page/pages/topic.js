// @ts-check
// One topic: its counts, why it begins no further job, what it does, and what a person can do with it.
import { setPaused } from '../actions.js'
import { get, inTopic, problem } from '../api.js'
import { Attempts, attemptsOf, versionOf } from '../attempts.js'
import { History, historyOf } from '../chart.js'
import { counted, facts, number, rate } from '../format.js'
import { html } from '../html.js'
import { Banner, Button, Facts, Handler, State, Table, Tiles, Time, Words } from '../parts.js'
import { to, toEvents, toFind, toState, toTopic, trailOf } from '../route.js'
import { may } from '../state.js'
import { CALM, conditionOf, countOf, REMEDY, statesIn, stateWord } from '../words.js'
import { ratesOf, topicsOf } from './overview.js'

function WhyIdle({ topic }) {
  const { reason, detail } = topic.idle ?? {}
  if (!reason || reason === 'empty') return null
  const calm = CALM.includes(reason)
  return html`<${Banner} kind=${calm ? '' : 'warn'} icon=${calm ? 'delayed' : 'warn'}><strong>No further job is begun here: <${Words} of=${detail} />.</strong> <${Words} of=${REMEDY[reason] ?? 'It goes on by itself.'} /><//>`
}

const TopicActions = ({ topic }) => html`
  <p class="actions">
    ${may('push') && html`<a class="button" href=${toTopic(topic, 'push')}>Push a job</a>`}
    ${may('admin') && (topic.paused
      ? html`<${Button} kind="main" run=${() => setPaused(topic, false)}>Resume<//>`
      : html`<${Button} run=${() => setPaused(topic, true)}>Pause<//>`)}
  </p>`

const Counts = ({ topic }) => html`
  <${Tiles} of=${statesIn([topic]).map((state) => [state, stateWord(state), number(countOf(topic, state)), toState(topic, state)]).concat(ratesOf([topic], (kind) => toEvents(topic, kind)))} />`

const Limits = ({ topic: { limits } }) => limits && html`<h2>Limits</h2><${Facts} of=${facts(limits).map(([name, value]) => [name, value === '0ms' ? 'none' : value])} />`

/** Where what was counted can be seen: dead jobs by their reason, anything else as it happens. */
const linkOf = (topic, name) => (name.startsWith('dead-') ? toFind(topic.tenant, `state:dead topic:${topic.topic} reason:${name.slice(5)}`) : toEvents(topic))

function Totals({ topic }) {
  const names = Object.keys(topic.totals).sort()
  if (!names.length) return null
  const per = topic.rates?.per_second ?? {}
  return html`<h2>Since the store began</h2>
    <${Table} label="Totals" heads=${['What', '#In all', '#A second']} rows=${names.map((name) => [name, name, html`<a href=${linkOf(topic, name)}>${number(topic.totals[name])}</a>`, rate(per[name] ?? 0)])} />`
}

/** What one list has and the other has not. */
const without = (some, others, sign) => some.filter((one) => !others.includes(one)).map((one) => `${sign} ${one}`)

/** What a version imports, against the one before it. */
function Imports({ imports, before }) {
  const changed = before && [...without(imports, before.imports, '+'), ...without(before.imports, imports, '−')]
  return html`<details><summary>${changed ? (changed.length ? `${changed.length} other than before` : 'as before') : imports.length}</summary><pre tabindex="0">${(changed ?? imports).join('\n')}</pre></details>`
}

/** How many of the latest attempts failed that ran on a version. Before a point in time, some are missing. */
function Fails({ version, latest }) {
  const of = latest?.attempts.filter((one) => versionOf(one) === version && one.at_ms > latest.since_ms) ?? []
  const failed = of.filter((one) => one.failed).length
  return of.length > 0 && html`<${State} name=${failed ? 'dead' : 'finished'} word=${`${failed} of ${of.length}`} />`
}

const Versions = ({ of, trial, latest }) => of?.versions.length > 0 && html`
  <${Table} label="Versions" heads=${['Version', 'First seen', 'Failed lately', 'Imports', '*It needs']} rows=${of.versions.map((one, n) => [
    one.version,
    html`<span class="id" title=${one.digest}>${one.version}</span> ${one.version === of.served && html`<${State} name="good" word="serves" />`}${one.version === trial?.version && html`<${State} name="running" word=${`tried on ${trial.share}`} />`}`,
    html`<${Time} at=${one.since_ms} whole />`,
    html`<${Fails} version=${one.version} latest=${latest} />`,
    html`<${Imports} imports=${one.imports} before=${of.versions[n + 1]} />`,
    one.needs.length ? one.needs.map(({ capability, granted }) => html`<${State} name=${granted ? 'good' : 'warn'} word=${granted ? capability : `${capability} is not granted`} /> `) : 'no grants',
  ])} />`

/** The latest attempts, of which versions are compared. */
const LATEST = '100'

/** @type {import('./all.js').Page} */
export const topic = {
  title: ({ params }) => params.topic,
  under: 'topics',
  trail: ({ params: { tenant } }) => trailOf({ tenant }),
  status: ({ topic }) => conditionOf(topic),
  load: async ({ params }, signal) => {
    const { tenant, topic } = params
    const [all, history, attempts, latest, versions] = await Promise.all([topicsOf(tenant, signal), historyOf(tenant, topic, signal), attemptsOf(tenant, { topic, failed: true }, signal), attemptsOf(tenant, { topic, limit: LATEST }, signal), get(inTopic(params, 'handler'), signal).catch(() => null)])
    const found = all.find((one) => one.topic === topic)
    if (!found) throw problem(`There is no topic ${topic}.`, 404)
    return { topic: found, history, attempts, latest, versions }
  },
  view: ({ data: { topic, history, attempts, latest, versions } }) => html`
    <${WhyIdle} topic=${topic} />
    ${topic.refused && topic.version && html`<${Banner} kind="warn"><strong>The component in the folder is not used:</strong> <span class="text"><${Words} of=${topic.refused} /></span><//>`}
    <${TopicActions} topic=${topic} />
    <${Counts} topic=${topic} />
    <${History} of=${history} />
    <h2>Handler</h2>
    <p><${Handler} topic=${topic} /> <a href=${to('t', topic.tenant, 'handlers')}>All handlers</a></p>
    <${Versions} of=${versions} trial=${topic.trial} latest=${latest} />
    <${Attempts} head="Recent failures" of=${attempts} name none=${topic.dead > 0 && html`What was given up before: <a href=${toTopic(topic, 'dead')}>${counted(topic.dead, 'dead job')}</a>.`} />
    <${Limits} topic=${topic} />
    <${Totals} topic=${topic} />`,
}

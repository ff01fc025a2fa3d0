// @ts-check
// One topic: its counts, why it begins no further job, what it does, and what a person can do with it.
import { setPaused } from '../actions.js'
import { problem } from '../api.js'
import { Attempts, attemptsOf } from '../attempts.js'
import { History, historyOf } from '../chart.js'
import { facts, number, rate } from '../format.js'
import { html } from '../html.js'
import { Banner, Button, Facts, Handler, Table, Tiles } from '../parts.js'
import { to, toState, toTopic } from '../route.js'
import { may } from '../state.js'
import { CALM, countOf, REMEDY, statesIn, stateWord } from '../words.js'
import { topicsOf } from './overview.js'

function WhyIdle({ topic }) {
  const { reason, detail } = topic.idle ?? {}
  if (!reason || reason === 'empty') return null
  const calm = CALM.includes(reason)
  return html`<${Banner} kind=${calm ? '' : 'warn'} icon=${calm ? 'delayed' : 'warn'}><strong>No further job is begun here: ${detail}.</strong> ${REMEDY[reason] ?? 'It goes on by itself.'}<//>`
}

const TopicActions = ({ topic }) => html`
  <p class="actions">
    ${may('push') && html`<a class="button" href=${toTopic(topic, 'push')}>Push a job</a>`}
    ${may('admin') && (topic.paused
      ? html`<${Button} kind="main" run=${() => setPaused(topic, false)}>Resume<//>`
      : html`<${Button} run=${() => setPaused(topic, true)}>Pause<//>`)}
  </p>`

const Counts = ({ topic }) => html`
  <${Tiles} of=${statesIn([topic]).map((state) => [state, stateWord(state), number(countOf(topic, state)), toState(topic, state)])} />`

const Limits = ({ topic: { limits } }) => limits && html`<h2>Limits</h2><${Facts} of=${facts(limits)} />`

function Totals({ topic }) {
  const names = Object.keys(topic.totals).sort()
  if (!names.length) return null
  const per = topic.rates?.per_second ?? {}
  return html`<h2>Since the store began</h2>
    <${Table} label="Totals" heads=${['What', '#In all', '#A second']} rows=${names.map((name) => [name, name, number(topic.totals[name]), rate(per[name] ?? 0)])} />`
}

/** @type {import('./all.js').Page} */
export const topic = {
  title: ({ params }) => params.topic,
  load: async ({ params }, signal) => {
    const { tenant, topic } = params
    const [all, history, attempts] = await Promise.all([topicsOf(tenant, signal), historyOf(tenant, topic, signal), attemptsOf(tenant, { topic, failed: true }, signal)])
    const found = all.find((one) => one.topic === topic)
    if (!found) throw problem(`There is no topic ${topic}.`)
    return { topic: found, history, attempts }
  },
  view: ({ data: { topic, history, attempts } }) => html`
    <${WhyIdle} topic=${topic} />
    ${topic.refused && topic.version && html`<${Banner} kind="warn"><strong>The component in the folder is not used:</strong> <span class="text">${topic.refused}</span><//>`}
    <${TopicActions} topic=${topic} />
    <${Counts} topic=${topic} />
    <${History} of=${history} />
    <${Attempts} head="Recent failures" of=${attempts} name />
    <h2>Handler</h2>
    <p><${Handler} topic=${topic} /> <a href=${to('t', topic.tenant, 'handlers')}>All handlers</a></p>
    <${Limits} topic=${topic} />
    <${Totals} topic=${topic} />`,
}

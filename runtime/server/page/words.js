// @ts-check
// What states and reasons mean, in words, and what needs a person's attention.
import { counted, cut, number, relative } from './format.js'
import { toTopic } from './route.js'

/** The states of a job that is not over, in the order of its life. */
export const WAYS = ['ready', 'delayed', 'waiting', 'running', 'dead']

/** A state, what became of a job, or of the tick of a schedule, in words. */
export const stateWord = (name) => ({ complete: 'Completed', overlap: 'Skipped', 'tenant-full': 'Skipped: no room' })[name] ?? name[0].toUpperCase() + name.slice(1)

/** What became of a job that is over. */
export const endOf = ({ result, ended }) => result?.outcome ?? ended?.outcome ?? 'over'

/** The states that are counted of topics; jobs wait for others in few. */
export const statesIn = (topics) => WAYS.filter((state) => state !== 'waiting' || topics.some((topic) => topic.waiting))

/** How many jobs of a topic are in a state. Those that wait for others are among the delayed ones there. */
export const countOf = (topic, state) => topic[state] - (state === 'delayed' ? topic.waiting : 0)

/** What to do about a topic that begins no job, by the reason. @type {Record<string, string>} */
export const REMEDY = {
  paused: 'The topic is paused. Resume it to go on.',
  'no-handler': 'Put a component of that name into the handlers folder, or name another `handler` in the manifest.',
  refused: 'Replace the component with one that passes the checks.',
  'no-handler-here': 'It goes on if another runner has one. If none has, put a component of that name into a handlers folder.',
  'lacks-grants': 'Grant the imports in the section of this topic in the manifest, or build the component without them.',
}

/** Reasons of failures that say little, in words. @type {Record<string, string>} */
export const REASONS = {
  'lease-expired': 'the lease ended before the attempt was settled',
  predecessor: 'a job that it waited for was not done',
}

/** Reasons that end by themselves. */
export const CALM = ['starting', 'compiling', 'concurrency-reached', 'max-running-reached', 'rate-limited', 'tenant-max-running-reached', 'no-handler-here']
/** Reasons that keep ready jobs from being begun until a person does something. */
const STUCK = ['no-handler', 'refused', 'lacks-grants']
/** A ready job that has waited longer is worth a look. */
const LONG = 60_000

/** Topics of which more of the attempts fail than this are noted, and those that are wrong. */
const SOME_FAIL = 0.1
const MANY_FAIL = 0.5

/** Of the attempts of the last minute at most: how many failed and were given up a second, and which share of all failed. */
export function failuresOf({ rates }) {
  const per = Object.entries(rates?.per_second ?? {})
  const sum = (names) => per.reduce((sum, [name, value]) => (names.test(name) ? sum + value : sum), 0)
  const failed = sum(/^(retried|dead-)/)
  return { failed, died: sum(/^dead-/), share: failed && failed / (failed + sum(/^acked/)) }
}

const percent = (share) => `${Math.round(share * 100)}%`

/** How a topic does: icon, word, and more about it. @returns {[string, string, string?]} */
export function conditionOf(topic) {
  const { idle, external, paused, ready, running, delayed, waiting, dead } = topic
  const { share } = failuresOf(topic)
  const reason = idle?.reason
  if (paused) return ['paused', 'paused', idle?.detail]
  if (share >= SOME_FAIL) return [share < MANY_FAIL ? 'warn' : 'dead', `${percent(share)} fail`, 'Of the attempts of the last minute']
  if (running ? !idle || reason === 'empty' : !idle && !external) return ['running', 'works']
  if (external && ready) return ['delayed', 'not claimed', 'Pull workers do its jobs.']
  if (idle && reason !== 'empty') return [CALM.includes(reason) ? 'delayed' : 'warn', reason.replaceAll('-', ' '), idle.detail]
  return delayed > waiting ? ['delayed', 'all delayed'] : waiting ? ['waiting', 'all wait'] : dead ? ['', 'only dead jobs'] : ['', 'no jobs']
}

/** @typedef {{ rank: number, size: number, topic?: string, what: string, why: string, href: string }} Concern */

/** What goes wrong at this moment, what does not go on, and what only waits for a person. */
const NOW = 3
const STOPPED = 2
const WAITS = 1

/**
 * What needs attention in these topics, the worst first.
 * @returns {Concern[]}
 */
export const concerns = (topics, now) => topics.flatMap((topic) => ofTopic(topic, now)).sort((a, b) => b.rank - a.rank || b.size - a.size)

/** Whether something is wrong, and not only to be looked at. */
export const isBad = ({ rank }) => rank > WAITS

/** @returns {Concern[]} */
function ofTopic(topic, now) {
  const { ready, dead, refused, lacking, paused, idle, oldest_ready_ms: oldest } = topic
  const { failed, died, share } = failuresOf(topic)
  const waiting = counted(ready, 'ready job')
  /** @type {Concern[]} */
  const found = []
  const add = (rank, size, words, why, ...below) => found.push({ rank, size, what: `${cut(topic.topic)}: ${words}`, why, href: toTopic(topic, ...below) })
  if (STUCK.includes(idle?.reason) && ready) add(STOPPED, ready, `no handler does its ${waiting}`, idle.detail)
  else if (refused) add(STOPPED, ready, 'its new component was refused', refused)
  else if (lacking.length) add(WAITS, ready, 'its component lacks grants', `not granted: ${lacking.join(', ')}`)
  if (ready && idle?.reason.endsWith('-used-up')) add(WAITS, ready, `${waiting} wait for a budget`, idle.detail)
  if (paused && ready) add(WAITS, ready, `paused with ${waiting}`, idle?.detail ?? 'Resume it to go on.')
  if (died > 0) add(NOW, died * 60, 'jobs die', `${number(dead)} dead, ${number(Math.ceil(died * 60))} more a minute; ${percent(share)} of the attempts fail`, 'dead')
  else if (share >= SOME_FAIL) add(share < MANY_FAIL ? WAITS : NOW, failed * 60, `${percent(share)} of the attempts fail`, `${number(Math.ceil(failed * 60))} a minute`)
  if (dead && !died) add(WAITS, dead, counted(dead, 'dead job'), 'Look why, then respawn or delete.', 'dead')
  const elsewhere = idle?.reason === 'no-handler-here'
  if ((!idle || elsewhere) && oldest && now - oldest > LONG) add(WAITS, ready, elsewhere ? 'no runner does its jobs' : 'it falls behind', `the oldest of ${waiting} was due ${relative(oldest, now)}`, ...(elsewhere ? [] : ['ready']))
  return found
}

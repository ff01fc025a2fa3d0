// @ts-check
// What states and reasons mean, in words, and what needs a person's attention.
import { counted, number, relative } from './format.js'
import { toTopic } from './route.js'

/** The states of a job that is not over, in the order of its life. */
export const WAYS = ['ready', 'delayed', 'waiting', 'running', 'dead']

/** A state, what became of a job, or of the tick of a schedule, in words. */
export const stateWord = (name) => ({ complete: 'Completed', overlap: 'Skipped' })[name] ?? name[0].toUpperCase() + name.slice(1)

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

/** @typedef {{ bad: boolean, what: string, why: string, href: string }} Concern */

/**
 * What needs attention in these topics, the worst first.
 * @returns {Concern[]}
 */
export function concerns(topics, now) {
  const all = topics.flatMap((topic) => ofTopic(topic, now))
  return [...all.filter((one) => one.bad), ...all.filter((one) => !one.bad)]
}

/** @returns {Concern[]} */
function ofTopic(topic, now) {
  const { ready, dead, refused, lacking, paused, idle, oldest_ready_ms: oldest } = topic
  const waiting = counted(ready, 'ready job')
  const found = []
  const add = (bad, words, why, ...below) => found.push({ bad, what: `${topic.topic}: ${words}`, why, href: toTopic(topic, ...below) })
  if (STUCK.includes(idle?.reason) && ready) add(true, `no handler does its ${waiting}`, idle.detail)
  else if (refused) add(true, 'its new component was refused', refused)
  else if (lacking.length) add(false, 'its component lacks grants', `not granted: ${lacking.join(', ')}`)
  if (ready && idle?.reason.endsWith('-used-up')) add(false, `${waiting} wait for a budget`, idle.detail)
  if (paused && ready) add(false, `paused with ${waiting}`, idle?.detail ?? 'Resume it to go on.')
  const dying = diesPerSecond(topic)
  if (dying > 0) add(true, 'jobs die', `${number(dead)} dead, ${number(Math.ceil(dying * 60))} more a minute`, 'dead')
  else if (dead) add(false, counted(dead, 'dead job'), 'Look why, then respawn or delete.', 'dead')
  if (!idle && oldest && now - oldest > LONG) add(false, 'it falls behind', `the oldest of ${waiting} was due ${relative(oldest, now)}`, 'ready')
  return found
}

/** How many jobs of the topic are given up a second. */
export const diesPerSecond = (topic) =>
  Object.entries(topic.rates?.per_second ?? {}).reduce((sum, [name, value]) => (name.startsWith('dead-') ? sum + value : sum), 0)

// @ts-check
// Places in the page: the part of the address behind `#`.

/** @typedef {{ page: string, params: any, query: URLSearchParams, path: string }} Place */

/** Pages with paths of their own. A part that begins with `:` is a parameter. */
const PAGES = {
  overview: 't/:tenant',
  topic: 't/:tenant/topics/:topic',
  push: 't/:tenant/topics/:topic/push',
  jobs: 't/:tenant/topics/:topic/:state',
  job: 't/:tenant/jobs/:id',
}
/** Those whose paths are their names, below a tenant or above all. */
for (const name of ['topics', 'find', 'running', 'dead', 'bulk', 'schedules', 'bill', 'handlers', 'events', 'tokens', 'audit']) PAGES[name] = `t/:tenant/${name}`
for (const name of ['workers', 'tenants', 'help']) PAGES[name] = name

/** A link to a place, of its parts. */
export const to = (...parts) => '#/' + parts.map(encodeURIComponent).join('/')

/** A link to a job. */
export const toJob = (tenant, id) => to('t', tenant, 'jobs', id)

/** A link to what happens in a topic: all, or events of a kind. */
export const toEvents = ({ tenant, topic }, kind = '') => `${to('t', tenant, 'events')}?${new URLSearchParams({ topic, ...(kind && { kind }) })}`

/** A link to the jobs that fit a query. */
export const toFind = (tenant, q) => `${to('t', tenant, 'find')}?q=${encodeURIComponent(q)}`

/** A link to a topic's jobs of a state. Those that wait for others are in the list of the delayed ones. */
export const toState = (topic, state) =>
  topic.waiting && /wait|delay/.test(state) ? toFind(topic.tenant, `state:${state} topic:${topic.topic}`) : toTopic(topic, state)

/** A link to a topic, or to what is below it. */
export const toTopic = ({ tenant, topic }, ...below) => to('t', tenant, 'topics', topic, ...below)

/** The way back from what is below a tenant's topics, or below one of them. @returns {[string, string][]} */
export const trailOf = ({ tenant, topic }) => [[to('t', tenant, 'topics'), 'Topics'], ...(topic ? [[toTopic({ tenant, topic }), topic]] : [])]

/**
 * The place that a fragment names, or null.
 * @returns {Place | null}
 */
export function placeOf(hash) {
  const [path, query] = hash.replace(/^#\/?/, '').split('?')
  const given = path.split('/').map(unescaped)
  for (const [page, pattern] of Object.entries(PAGES)) {
    const wanted = pattern.split('/')
    const fits = wanted.length === given.length && wanted.every((part, n) => (part[0] === ':' ? given[n] : part === given[n]))
    if (!fits) continue
    const params = Object.fromEntries(wanted.flatMap((part, n) => (part[0] === ':' ? [[part.slice(1), given[n]]] : [])))
    return { page, params, query: new URLSearchParams(query), path }
  }
  return null
}

function unescaped(part) {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

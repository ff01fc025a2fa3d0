// @ts-check
// Places in the page: the part of the address behind `#`.

/** @typedef {{ page: string, params: any, query: URLSearchParams, path: string }} Place */

/** Each page's name and path. A part that begins with `:` is a parameter. */
const PAGES = {
  overview: 't/:tenant',
  topics: 't/:tenant/topics',
  topic: 't/:tenant/topics/:topic',
  push: 't/:tenant/topics/:topic/push',
  jobs: 't/:tenant/topics/:topic/:state',
  job: 't/:tenant/jobs/:id',
  find: 't/:tenant/find',
  running: 't/:tenant/running',
  dead: 't/:tenant/dead',
  handlers: 't/:tenant/handlers',
  events: 't/:tenant/events',
  tokens: 't/:tenant/tokens',
  tenants: 'tenants',
  help: 'help',
}

/** A link to a place, of its parts. */
export const to = (...parts) => '#/' + parts.map(encodeURIComponent).join('/')

/** A link to a topic, or to what is below it. */
export const toTopic = ({ tenant, topic }, ...below) => to('t', tenant, 'topics', topic, ...below)

/**
 * The place that a fragment names, or null.
 * @returns {Place | null}
 */
export function placeOf(hash) {
  const [path, query] = hash.replace(/^#\/?/, '').split('?')
  const given = path.split('/').map(decoded)
  for (const [page, pattern] of Object.entries(PAGES)) {
    const wanted = pattern.split('/')
    const fits = wanted.length === given.length && wanted.every((part, n) => (part[0] === ':' ? given[n] : part === given[n]))
    if (!fits) continue
    const params = Object.fromEntries(wanted.flatMap((part, n) => (part[0] === ':' ? [[part.slice(1), given[n]]] : [])))
    return { page, params, query: new URLSearchParams(query), path }
  }
  return null
}

function decoded(part) {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

// @ts-check
// Where jobs are that only their ids are known of.
import { getIf, inTenant } from './api.js'
import { endOf, WAYS } from './words.js'

/** Jobs that one load asks for. */
const AT_ONCE = 50
/** Jobs that are remembered. */
const REMEMBERED = 10_000

/** What became of jobs that are over. @type {Map<string, string>} */
const over = new Map()

/** The states of jobs by their ids; a job that was not asked for yet has none. What is over is asked for once. */
export async function statesOf(tenant, ids, signal) {
  if (over.size > REMEMBERED) over.clear()
  const known = new Map(ids.map((id) => [id, over.get(inTenant(tenant, 'jobs', id))]))
  const asked = [...known.keys()].filter((id) => !known.get(id)).slice(0, AT_ONCE)
  await Promise.all(asked.map(async (id) => {
    const where = inTenant(tenant, 'jobs', id)
    const view = await getIf(where, signal).catch(() => ({}))
    const state = view === null ? 'over' : view.state === 'finished' ? endOf(view) : view.state
    known.set(id, state)
    if (state && !WAYS.includes(state)) over.set(where, state)
  }))
  return known
}

// @ts-check
// What a person can do to topics and jobs. Each action says what became of it.
import { inTenant, inTopic, post, remove } from './api.js'
import { counted, number } from './format.js'
import { refresh } from './live.js'
import { draw, now, say, state } from './state.js'

/** Does something and says what came of it. */
export async function act(run) {
  try {
    say(await run())
  } catch (error) {
    say(error.message, true)
  }
  return refresh()
}

/** Asks first. */
export function ask(question) {
  state.dialog = question
  draw()
}

export const setPaused = (topic, paused) =>
  act(async () => {
    await post(inTenant(topic.tenant, 'topics', topic.topic, paused ? 'pause' : 'resume'), {})
    return paused ? `${topic.topic} is paused.` : `${topic.topic} goes on.`
  })

export const cancel = (tenant, id) =>
  ask({
    title: 'Cancel the job?',
    text: `${id} is removed if it waits. If it runs, its handler is asked to stop.`,
    verb: 'Cancel the job',
    run: async () => {
      const { status } = await remove(inTenant(tenant, 'jobs', id))
      return status === 'gone' ? `${id} is cancelled.` : `${id} is running; its handler is asked to stop.`
    },
  })

export const respawn = (topic, id) =>
  act(async () => {
    const answer = await post(inTopic(topic, 'dead', 'respawn'), { ids: [id] })
    return answer.were_dead[0] ? `${id} is ready again.` : `${id} is not dead any more.`
  })

export const deleteDead = (topic, id) =>
  ask({
    title: 'Delete the dead job?',
    text: `${id} is gone then, with its body and its failure.`,
    verb: 'Delete the job',
    run: async () => {
      const answer = await post(inTopic(topic, 'dead', 'delete'), { ids: [id] })
      return answer.were_dead[0] ? `${id} is deleted.` : `${id} is not dead any more.`
    },
  })

/** All dead jobs of a topic, or those of a query. */
export function allDead(topic, what, count, q) {
  const respawns = what === 'respawn'
  const jobs = counted(count, 'dead job')
  ask({
    title: respawns ? `Respawn ${jobs} of ${topic.topic}?` : `Delete ${jobs} of ${topic.topic}?`,
    text: respawns ? 'They become ready again, with all their attempts.' : 'They are gone then, with their bodies and failures.',
    verb: respawns ? 'Respawn all' : 'Delete all',
    run: () => allDeadNow(inTopic(topic, 'dead', what), respawns ? 'respawned' : 'deleted', q),
  })
}

/** One request after the other, each of a thousand jobs at most. Jobs that die meanwhile are left alone. */
async function allDeadNow(where, done, q) {
  const choice = q ? { q } : { filter: { before_ms: Math.floor(now()) } }
  let changed = 0
  let after = null
  do {
    const answer = await post(where, { ...choice, limit: 1000, ...(after && { after }) })
    changed += answer.changed
    after = answer.next
    if (after) say(`${number(changed)} jobs ${done} so far …`)
  } while (after)
  return `${counted(changed, 'job')} ${done}.`
}

// @ts-check
// What a person can do to topics and jobs. Each action says what became of it.
import { inTenant, inTopic, post, remove } from './api.js'
import { counted } from './format.js'
import { refresh } from './live.js'
import { draw, say, state } from './state.js'

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
    await post(inTopic(topic, paused ? 'pause' : 'resume'), {})
    return `${topic.topic} ${paused ? 'is paused' : 'goes on'}.`
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

export const kill = (tenant, id) =>
  ask({
    title: 'Kill the job?',
    text: `${id} is removed, and its attempt is ended in the middle of what it does. Cancel lets its handler stop by itself.`,
    verb: 'Kill the job',
    run: async () => (await remove(inTenant(tenant, 'jobs', id) + '?kill=true'), `${id} is killed.`),
  })

/** Cancels a job and its tree, about a thousand jobs a request. */
export const cancelTree = (tenant, id) =>
  ask({
    title: 'Cancel the tree?',
    text: `${id}, the jobs that wait for it, those that wait for them, and members of batches are removed.`,
    verb: 'Cancel them all',
    run: async () => {
      let all = 0
      for (;;) {
        const { gone, stopping, complete } = await remove(inTenant(tenant, 'jobs', id) + '?tree=true')
        all += gone
        if (complete || !gone) return `${counted(all + stopping, 'job')} cancelled.`
      }
    },
  })

export const seal = (tenant, id) =>
  act(async () => {
    const { status } = await post(inTenant(tenant, 'jobs', id, 'seal'), {})
    return status === 'sealed' ? `${id} is sealed.` : `${id} was sealed before.`
  })

/** Respawns or deletes a dead job. */
async function oneDead(topic, verb, id, done) {
  const { were_dead: [was] } = await post(inTopic(topic, 'dead', verb), { ids: [id] })
  return `${id} is ${was ? done : 'not dead any more'}.`
}

export const respawn = (topic, id) => act(() => oneDead(topic, 'respawn', id, 'ready again'))

export const deleteDead = (topic, id) =>
  ask({
    title: 'Delete the dead job?',
    text: `${id} is gone then, with its body and its failure.`,
    verb: 'Delete the job',
    run: () => oneDead(topic, 'delete', id, 'deleted'),
  })

// @ts-check
// Changes of jobs that wait: when they are due, and before which others they run.
import { act, ask } from './actions.js'
import { inTenant, post } from './api.js'
import { html } from './html.js'
import { Choice, Field, PRIORITIES } from './parts.js'

/** A point in time as a field has it: by this machine's clock, to the second, without one that is zero. */
const local = (at) => new Date(at - new Date(at).getTimezoneOffset() * 60_000).toISOString().slice(0, 19).replace(/:00$/, '')

/** Asks for what is to be changed, and calls `run` with it. What is left as it is, is not in it. */
export function askChange(title, run, priority = '', due = '') {
  ask({
    title,
    text: 'Jobs that run or are dead stay as they are.',
    verb: 'Change',
    fields: html`
      <${Field} label="Priority"><${Choice} name="priority" value=${priority} of=${[...(priority ? [] : [['', 'as it is']]), ...PRIORITIES]} /><//>
      <${Field} label="Due"><input name="due" type="datetime-local" step="1" defaultValue=${due} /><//>`,
    run: (form) => {
      const [wanted, at] = [form.get('priority'), form.get('due')]
      return run({ ...(wanted && wanted !== priority && { priority: wanted }), ...(at && at !== due && { due: { at_ms: Date.parse(at) } }) })
    },
  })
}

async function changed(tenant, id, change) {
  const { status } = Object.keys(change)[0] ? await post(inTenant(tenant, 'jobs', id), change, 'PATCH') : { status: 'unchanged' }
  return `${id} is ${status}.`
}

export const runNow = (tenant, id) => act(() => changed(tenant, id, { due: 'now' }))

export const changeJob = (tenant, { id, job, until_ms: due = job.due_at_ms }) =>
  askChange('Change the job?', (change) => changed(tenant, id, change), job.spec.priority, local(due))

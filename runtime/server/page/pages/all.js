// @ts-check
// The pages by the names that `route.js` gives them.
import { audit } from './audit.js'
import { bill } from './bill.js'
import { bulk } from './bulk.js'
import { dead } from './dead.js'
import { events } from './events.js'
import { handlers } from './handlers.js'
import { help } from './help.js'
import { job } from './job.js'
import { find, jobs, running } from './jobs.js'
import { overview, topics } from './overview.js'
import { push } from './push.js'
import { schedules } from './schedules.js'
import { tenants } from './tenants.js'
import { tokens } from './tokens.js'
import { topic } from './topic.js'
import { workers } from './workers.js'

/**
 * A page: its title, what it loads, and how it looks. `rows` names the rows of its table, which are not moved while a person
 * points at one; `once` says that it is not loaded again by itself; `arrive` is called when a person comes to it. `under` is the page whose
 * link leads to it, `trail` the way back, and `status` the state of what it is about: icon, word, and more.
 * @typedef {{
 *   title: (place: import('../route.js').Place) => string,
 *   load?: (place: import('../route.js').Place, signal: AbortSignal) => Promise<any>,
 *   view: (props: { place: import('../route.js').Place, data: any }) => any,
 *   rows?: (data: any) => string[],
 *   once?: (place: import('../route.js').Place) => boolean,
 *   under?: string,
 *   trail?: (place: import('../route.js').Place, data: any) => [string, string][],
 *   ask?: (props: { place: import('../route.js').Place }) => any,
 *   status?: (data: any) => [string, string, string?],
 *   arrive?: (place: import('../route.js').Place, signal: AbortSignal) => void,
 * }} Page
 */

/** @type {Record<string, Page>} */
export const pages = { overview, topics, topic, push, jobs, job, find, running, dead, bulk, handlers, events, schedules, bill, tokens, audit, workers, tenants, help }

// @ts-check
// What happens now: the events of a tenant, the latest first.
import { inTenant } from '../api.js'
import { absolute, facts, relative } from '../format.js'
import { html } from '../html.js'
import { Field, Form, JobLink, State, Table, TopicLink } from '../parts.js'
import { draw, now, state } from '../state.js'
import { follow } from '../stream.js'
import { stateWord } from '../words.js'
import { askFor } from './jobs.js'

/** Events that are kept. */
const KEPT = 200
/** When to listen again after the stream has ended, in milliseconds. */
const LATER = 3000

/** @type {{ all: any[], missed: number, open: boolean, why: string }} */
const log = { all: [], missed: 0, open: false, why: '' }
let next = 0

function take(event) {
  if (event.missed) log.missed += event.missed
  else if (state.live) log.all.unshift({ ...event, n: next++ })
  log.all.length = Math.min(KEPT, log.all.length)
  draw()
}

/** Reads the stream, and reads it again after a while when it ends. */
async function read(tenant, query, signal) {
  const opened = () => {
    Object.assign(log, { open: true, why: '' })
    draw()
  }
  while (!signal.aborted) {
    try {
      await follow(`${inTenant(tenant, 'events')}?${query}`, signal, { opened, take })
    } catch (error) {
      log.why = error.message
      if (error.status === 401) state.login = error.message
      if (error.status === 403 || error.status === 400) return draw()
    }
    log.open = false
    if (signal.aborted) return
    draw()
    await new Promise((resolve) => setTimeout(resolve, LATER))
  }
}

/** What an event says besides what has a column. */
const details = ({ n, at_ms, kind, tenant, topic, job, ...others }) => facts(others).map((pair) => pair.join(' ')).join(' · ')

const row = (event, tenant) => [
  event.n,
  html`<time datetime=${new Date(event.at_ms).toISOString()} title=${relative(event.at_ms, now())}>${absolute(event.at_ms).slice(11)}</time>`,
  html`<${State} name=${event.kind.split('-').pop()} word=${event.kind} />`,
  event.topic ? html`<${TopicLink} of=${event} />` : event.handler,
  event.job && html`<${JobLink} tenant=${tenant} id=${event.job} />`,
  details(event),
]

/** @type {import('./all.js').Page} */
export const events = {
  title: () => 'Events',
  arrive: ({ params, query }, signal) => {
    Object.assign(log, { all: [], missed: 0, open: false, why: '' })
    read(params.tenant, query, signal)
  },
  view: ({ place: { params, query } }) => html`
    <${Form} run=${askFor} verb="Listen"><div class="row">${['topic', 'job', 'kind'].map((name) => html`
      <${Field} label=${stateWord(name)}><input name=${name} key=${query.get(name)} defaultValue=${query.get(name)} autocomplete="off" /><//>`)}</div><//>
    <p>${log.open ? html`<${State} name="running" word="listening" />` : html`<${State} name="warn" word=${log.why || 'connecting …'} />`}
      <span class="none"> The latest ${KEPT} since this page was opened; a paused page takes no more. ${log.missed ? `${log.missed} were missed.` : ''}</span></p>
    <${Table} label="Events" none="Nothing has happened yet." heads=${['When', 'What', 'Topic', 'Job', '~Details']} rows=${log.all.map((event) => row(event, params.tenant))} />`,
}

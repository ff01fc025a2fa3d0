// @ts-check
// What a handler asked of the host in the last attempt that was recorded, and what it logged in between.
import { get, inTenant } from './api.js'
import { counted } from './format.js'
import { html } from './html.js'
import { Table } from './parts.js'
import { draw } from './state.js'

/** The steps that are shown: the last ones say why it failed. */
const STEPS_SHOWN = 500
/** What the person has asked for, by job and number of attempts: null while it is on its way. @type {Map<string, any>} */
const askedFor = new Map()

/** Loads what is asked for, once; what went wrong is asked for anew. */
async function loadCalls(key, tenant, id) {
  if (askedFor.has(key) && !askedFor.get(key)?.problem) return
  if (askedFor.size > 8) askedFor.clear()
  askedFor.set(key, null)
  askedFor.set(key, await get(inTenant(tenant, 'jobs', id, 'recording', 'calls')).catch((error) => ({ problem: error.message })))
  draw()
}

/** Calls and log lines as rows, in order. */
function stepsOf({ calls, log }) {
  const steps = []
  let next = 0
  const say = (most) => {
    for (; next < (log ?? []).length && log[next].after <= most; next += 1) {
      const { level, source, message, fields } = log[next]
      steps.push([null, source === 'log' ? level : source, '', [message, ...fields.map(([name, value]) => `${name}=${value}`)].join('  ')])
    }
  }
  calls.forEach(({ name, asked, answered }, n) => {
    say(n)
    steps.push([n + 1, name, asked, answered])
  })
  say(calls.length)
  return steps.map(([number, name, asked, answered], n) => [n, number ?? html`<span class="none">–</span>`, html`<span class=${number ? 'id' : 'none'}>${name}</span>`, html`<span class="text">${asked}</span>`, html`<span class="text">${answered}</span>`])
}

function Recorded({ of, id }) {
  if (!of) return html`<p class="none">On its way…</p>`
  if (of.problem ?? of.unreadable) return html`<p class="text">${of.problem ?? of.unreadable}</p>`
  if (!of.recorded) return html`<p class="empty">No recording of this job is kept: its topic's <code>record</code> says of which attempts there is one, and the oldest make room for others.</p>`
  const { attempt, outcome, incomplete, calls, log } = of.recorded
  const all = stepsOf(of.recorded)
  return html`
    <p>Attempt ${attempt} ended as <b class="id">${outcome}</b> after ${counted(calls.length, 'call')}. <span class="none">${incomplete ? `It cannot be replayed: ${incomplete}.` : html`<code>gristmill replay ${id}</code> runs it again.`}</span></p>
    ${!log && html`<p class="none">A secret was in its log lines: they are not kept.</p>`}
    ${all.length > STEPS_SHOWN && html`<p class="none">Only the last ${STEPS_SHOWN} steps are shown: <code>gristmill replay ${id} --step</code> shows all.</p>`}
    <${Table} label="Calls of the host" heads=${['#No.', 'Call', '*Asked', '*Answered']} rows=${all.slice(-STEPS_SHOWN)} none="It asked nothing whose answer does not follow from the job, and logged nothing." />`
}

/**
 * Folded until a person asks for it: it may be long.
 * @param {{ tenant: string, view: any }} props
 */
export function Calls({ tenant, view: { id, attempts } }) {
  const key = [tenant, id, attempts].join()
  return html`<details class="calls" onToggle=${({ target }) => target.open && loadCalls(key, tenant, id)}>
    <summary>What it asked of the host</summary>${askedFor.has(key) && html`<${Recorded} of=${askedFor.get(key)} id=${id} />`}</details>`
}

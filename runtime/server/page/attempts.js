// @ts-check
// The latest attempts that the server remembers, with what their handlers logged.
import { getIf, inTenant } from './api.js'
import { span } from './format.js'
import { html } from './html.js'
import { JobLink, State, Time } from './parts.js'

/** The attempts that fit, the latest first; null where the server has none of this. */
export const attemptsOf = (tenant, wanted, signal) => getIf(`${inTenant(tenant, 'attempts')}?${new URLSearchParams({ ...wanted, limit: '20' })}`, signal)

/** When, how grave, and what was said. */
const logged = ({ at_ms: at, level, text }) => `${new Date(at).toISOString().slice(11, 23)} ${level.padEnd(5)} ${text}`

const Attempt = ({ of: { job, tenant, attempt, outcome, failed, message, at_ms: at, started_us: from, ended_us: to, log, log_left_out: cut }, name }) => html`
  <li><p class="bar"><${State} name=${failed ? 'warn' : 'good'} word=${outcome} />${name && html`<${JobLink} tenant=${tenant} id=${job} />`}
      <span>attempt ${attempt}</span><span class="none"><${Time} at=${at} />${to && `, after ${span((to - from) / 1000)}`}</span></p>
    ${message && html`<p class="text">${message}</p>`}
    ${log.length > 0 && html`<pre tabindex="0" role="region" aria-label=${`Log of ${job}, attempt ${attempt}`}>${cut > 0 && `… ${cut} lines before\n`}${log.map(logged).join('\n')}</pre>`}</li>`

/** With `name`, each says whose it is. @param {{ head: string, of: any, name?: boolean }} props */
export const Attempts = ({ head, of, name }) => of && html`
  <h2>${head}</h2>
  ${of.attempts.length ? html`<ul>${of.attempts.map((one) => html`<${Attempt} key=${one.at_ms + one.job} of=${one} name=${name} />`)}</ul>` : html`<p class="empty">None since <${Time} at=${of.since_ms} />.</p>`}`

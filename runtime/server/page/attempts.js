// @ts-check
// The latest attempts that the server remembers, with what their handlers logged.
import { getIf, getSeldom, inTenant } from './api.js'
import { counted, span } from './format.js'
import { html } from './html.js'
import { JobLink, State, Time } from './parts.js'

/** The attempts that fit, the latest first, many of them not each time; null where the server has none of this. */
export const attemptsOf = (tenant, wanted, signal) =>
  (wanted.limit ? getSeldom : getIf)(`${inTenant(tenant, 'attempts')}?${new URLSearchParams({ limit: '20', ...wanted })}`, signal)

/** When, how grave, and what was said. */
const logged = ({ at_ms: at, level, text }) => `${new Date(at).toISOString().slice(11, 23)} ${level.padEnd(5)} ${text}`

/** The version of a component, as it is written everywhere. */
export const versionOf = ({ component }) => component?.slice(0, 12)

const Attempt = ({ of, name, said, alike }) => {
  const { job, tenant, attempt, outcome, failed, message, at_ms: at, started_us: from, ended_us: to, log, log_left_out: cut } = of
  return html`
  <li><p class="bar"><${State} name=${failed ? 'dead' : 'finished'} word=${outcome} />${name && html`<${JobLink} tenant=${tenant} id=${job} />`}
      <span>attempt ${attempt}</span><span class="none"><${Time} at=${at} />${to && `, after ${span((to - from) / 1000)}`}${of.component && `, version ${versionOf(of)}`}</span>
      ${alike > 0 && html`<b>and ${counted(alike, 'attempt')} like it</b>`}</p>
    ${message && message !== said && html`<p class="text">${message}</p>`}
    ${log.length > 0 && html`<pre tabindex="0" role="region" aria-label=${`Log of ${job}, attempt ${attempt}`}>${cut > 0 && `… ${cut} lines before\n`}${log.map(logged).join('\n')}</pre>`}</li>`
}

/** Attempts that say the same but for numbers, of several jobs, as one: the latest. */
function distinct(attempts) {
  /** @type {Map<string, any>} */
  const found = new Map()
  for (const one of attempts) {
    const like = [one.outcome, one.component, one.message?.replace(/\d+/g, '#')].join()
    found.set(like, { of: one, alike: 0, ...found.get(like) })
    found.get(like).alike += 1
  }
  return [...found.values()]
}

/**
 * With `name`, each says whose it is, and those that are alike are one; what was `said` above is not said again. `none` is for a list without any.
 * @param {{ head: string, of: any, name?: boolean, said?: string, none?: any }} props
 */
export function Attempts({ head, of, name, said, none }) {
  if (!of) return null
  const shown = name ? distinct(of.attempts) : of.attempts.map((one) => ({ of: one, alike: 1 }))
  return html`
  <h2>${head}</h2>
  ${shown.length ? html`<ul class="attempts">${shown.map(({ of, alike }) => html`<${Attempt} key=${of.at_ms + of.job} of=${of} name=${name} said=${said} alike=${alike - 1} />`)}</ul>` : html`<p class="empty">None since <${Time} at=${of.since_ms} />, as far as this server remembers: it knows those that it ran itself. ${none}</p>`}`
}

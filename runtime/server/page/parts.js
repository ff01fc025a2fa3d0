// @ts-check
// Small parts that all pages share.
import { absolute, number, relative } from './format.js'
import { html } from './html.js'
import { Icon } from './icons.js'
import { to, toTopic } from './route.js'
import { now } from './state.js'
import { CALM, STATES } from './words.js'

/** A state as an icon and a word. */
export const State = ({ name, word }) => html`<span class=${`state ${name}`}><${Icon} name=${name} />${word ?? STATES[name] ?? name}</span>`

/** A point in time, as people say it; the whole of it on hover. */
export const Time = ({ at }) => html`<time datetime=${new Date(at).toISOString()} title=${absolute(at)}>${relative(at, now())}</time>`

/** A count that leads to its jobs. */
export const Count = ({ count, href, what, kind }) =>
  count ? html`<a class=${kind} href=${href} aria-label=${`${number(count)} ${what}`}>${number(count)}</a>` : html`<span class="none">0</span>`

/** The link to a job. */
export const JobLink = ({ tenant, id }) => html`<a class="id" href=${to('t', tenant, 'jobs', id)}>${id}</a>`

/** The link to a topic. */
export const TopicLink = ({ of }) => html`<a href=${toTopic(of)}>${of.topic}</a>`

/** Why a topic begins no further job, or that it does. */
export function Idle({ topic: { idle } }) {
  if (!idle) return html`<${State} name="running" word="works" />`
  const { reason, detail } = idle
  if (reason === 'empty') return html`<span class="none">no jobs</span>`
  const icon = reason === 'paused' ? reason : CALM.includes(reason) ? 'delayed' : 'warn'
  return html`<span title=${detail}><${State} name=${icon} word=${reason.replaceAll('-', ' ')} /></span>`
}

/** The handler of a topic, and its version. */
export const Handler = ({ topic }) =>
  topic.version ? html`<span class="id">${topic.handler}<span class="none">@${topic.version}</span></span>` : html`<span class="none">${topic.handler ?? '–'}</span>`

/**
 * A table that can be moved sideways where it does not fit. A head that begins with `#` stands above numbers, one with `~` above
 * texts that may be cut, `!` is that of the buttons. A row is its key and its cells, of which the first names the row.
 * @typedef {[string | number, ...any[]]} Row
 */
export const Table = ({ label, heads, rows }) => html`
  <div class="scroll" role="region" aria-label=${label} tabindex="0">
    <table>
      <thead><tr>${heads.map((head) => html`<th scope="col" class=${KINDS[head[0]]}>${head === '!' ? html`<span class="unseen">Actions</span>` : head.replace(/^[#~]/, '')}</th>`)}</tr></thead>
      <tbody>${rows.map(([key, first, ...cells]) => html`<tr key=${key}><th scope="row" class=${KINDS[heads[0][0]]}>${first}</th>${cells.map((cell, n) => html`<td class=${KINDS[heads[n + 1][0]]}>${cell}</td>`)}</tr>`)}</tbody>
    </table>
  </div>`

const KINDS = { '#': 'n', '~': 'short', '!': 'actions' }

/** Something that a person should read first. `kind` is `warn`, `bad` or nothing. */
export const Banner = ({ kind, icon = kind, children, button }) => html`
  <div class=${`banner ${kind ?? ''}`} role=${kind === 'bad' ? 'alert' : undefined}>${icon && html`<${Icon} name=${icon} />`}<div>${children}</div>${button}</div>`

export const Button = ({ run, children, kind, label }) => html`<button type="button" class=${kind} aria-label=${label} onClick=${run}>${children}</button>`

/** Large numbers that lead to their jobs: icon or nothing, name, value, address. */
export const Tiles = ({ of }) => html`
  <ul class="tiles">${of.map(([icon, name, value, href]) => html`<li><a href=${href}><span>${icon && html`<${Icon} name=${icon} />`}${name}</span><b>${value}</b></a></li>`)}</ul>`

/** Names and values. */
export const Facts = ({ of }) => html`
  <dl class="facts">${of.filter(([, value]) => value !== null && value !== undefined).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`

/** A field of a form with its label. */
export const Field = ({ label, hint, children }) => html`
  <label class="field"><span>${label}</span>${children}${hint && html`<small>${hint}</small>`}</label>`

/** A text that says that there is nothing. */
export const Empty = ({ children }) => html`<p class="empty">${children}</p>`

// @ts-check
// Small parts that all pages share.
import { absolute, cut, number, relative, span } from './format.js'
import { html } from './html.js'
import { Icon } from './icons.js'
import { toJob, toTopic } from './route.js'
import { may, now } from './state.js'
import { conditionOf, stateWord } from './words.js'

/** A state as an icon and a word, or for the eye the icon alone. */
export const State = ({ name, word, short, title }) => html`<span class=${`state ${name || 'none'}`} title=${title}>${name && html`<${Icon} name=${name} />`}<span class=${short && 'unseen'}>${word ?? stateWord(name)}</span></span>`

/** A point in time, as people say it; the whole of it on hover, or below. */
export const Time = ({ at, whole, zone }) => html`<time datetime=${new Date(at).toISOString()} title=${absolute(at)}>${relative(at, now())}</time>${whole && html`<small>${absolute(at, zone)}</small>`}`

/** A count that leads to its jobs. */
export const Count = ({ count, href, what, kind }) =>
  count ? html`<a class=${kind} href=${href} aria-label=${`${number(count)} ${what}`}>${number(count)}</a>` : html`<span class="none">0</span>`

/** A name whose middle may be left out. */
export const Name = ({ of, most }) => html`<span title=${of}>${cut(of, most)}</span>`

/** The link to a job. */
export const JobLink = ({ tenant, id, most }) => html`<a class="id" href=${toJob(tenant, id)}><${Name} of=${id} most=${most} /></a>`

/** The link to a topic. */
export const TopicLink = ({ of, most }) => html`<a href=${toTopic(of)}><${Name} of=${of.topic} most=${most} /></a>`

/** A text in which backticks are around code. */
export const Words = ({ of }) => of.split('`').map((part, n) => (n % 2 ? html`<code>${part}</code>` : part))

/** How a topic does. */
export function Condition({ topic }) {
  const [name, word, title] = conditionOf(topic)
  return html`<${State} name=${name} word=${word} title=${title} />`
}

/** The handler of a topic, and its version. */
export const Handler = ({ topic }) =>
  topic.version ? html`<span class="id handler"><${Name} of=${topic.handler} most=${28} /><span class="none">@${topic.version}</span></span>` : html`<span class="none">${topic.handler ?? '–'}</span>`

/**
 * A table; on a narrow screen each row is a card. A head that begins with `#` stands above numbers, one with `~` above texts that may be cut,
 * one with `*` above what may have several lines, one with `?` above what is left out where room is scarce, `!` is that of the buttons, the last
 * one, for who may change something. A row is its key and its cells, of which the first names the row. Without rows, `none` is said.
 */
export function Table({ label, heads, rows, none }) {
  if (none && !rows.length) return html`<p class="empty">${none}</p>`
  const shown = heads.filter((head) => head !== '!' || may('admin'))
  const name = (head) => head.replace(/^[#~*?!]/, '')
  return html`
  <div class="scroll" role="region" aria-label=${label} tabindex="0">
    <table>
      <thead><tr>${shown.map((head) => html`<th scope="col" class=${KINDS[head[0]]}>${name(head) || html`<span class="unseen">Actions</span>`}</th>`)}</tr></thead>
      <tbody>${rows.map(([key, first, ...cells]) => html`<tr key=${key}><th scope="row" class=${KINDS[heads[0][0]]} data-head=${name(heads[0])}>${first}</th>${shown.slice(1).map((head, n) => html`<td class=${KINDS[head[0]]} data-head=${name(head)}>${cells[n]}</td>`)}</tr>`)}</tbody>
    </table>
  </div>`
}

const KINDS = { '#': 'n', '~': 'short', '*': 'lines', '?': 'spare', '!': 'actions' }

/** Something that a person should read first. `kind` is `warn`, `bad` or nothing. */
export const Banner = ({ kind, icon = kind, children, button }) => html`
  <div class=${`banner ${kind ?? ''}`} role=${kind === 'bad' ? 'alert' : undefined}>${icon && html`<${Icon} name=${icon} />`}<div>${children}</div>${button}</div>`

export const Button = ({ run, children, kind, label, focus }) => html`<button type="button" class=${kind} aria-label=${label} autofocus=${focus} onClick=${run}>${children}</button>`

/** How far something is, of `max`; without `value` nobody knows. */
export const Progress = ({ value, max, label, children }) => html`<p><progress max=${max} value=${value} aria-label=${label} /> ${children}</p>`

/** For how long a job runs, and of how much time that its topic gives it. */
export function Elapsed({ of, topic }) {
  const ran = now() - of.claimed_at_ms
  const limit = topic && !topic.external && topic.limits?.timeout_ms
  return limit ? html`<meter max=${limit} value=${ran} aria-label="Time used" /> ${span(ran)} of ${span(limit)}` : span(ran)
}

/** Large numbers that lead to their jobs: icon or nothing, name, value, address. */
export const Tiles = ({ of }) => html`
  <ul class="tiles">${of.map(([icon, name, value, href]) => html`<li><a href=${href}><span>${icon && html`<${Icon} name=${icon} />`}${name}</span><b>${value}</b></a></li>`)}</ul>`

/** Names and values. */
export const Facts = ({ of }) => html`
  <dl class="facts">${of.filter(([, value]) => value !== null && value !== undefined).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`

/** A field of a form with its label. */
export const Field = ({ label, hint, children }) => html`
  <label class="field"><span>${label}</span>${children}${hint && html`<small>${hint}</small>`}</label>`

export const PRIORITIES = [['high'], ['normal'], ['low']]

/** A field of a form with a few choices: pairs of value and words, or values. */
export const Choice = ({ name, value, of }) => html`<select name=${name}>${of.map(([one, words = one]) => html`<option value=${one} selected=${one === value}>${words}</option>`)}</select>`

/** A form: `run` gets what its fields say, and the form. */
export const Form = ({ run, verb, children }) => html`
  <form class="form" onSubmit=${(event) => (event.preventDefault(), run(new FormData(event.target), event.target))}>
    ${children}${verb && html`<p class="actions"><button class="main">${verb}</button></p>`}
  </form>`

/** Links to lists beside this one: address, words, and whether it is this one. */
export const Tabs = ({ label, of }) => html`
  <nav class="tabs" aria-label=${label}>${of.map(([href, words, here]) => html`<a href=${href} aria-current=${here ? 'page' : undefined}>${words}</a>`)}</nav>`

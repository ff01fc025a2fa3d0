// @ts-check
// The dead in groups, by what killed them.
import { allDead } from '../actions.js'
import { get, inTenant } from '../api.js'
import { number } from '../format.js'
import { html } from '../html.js'
import { Button, Empty, Table, Time, TopicLink } from '../parts.js'
import { to } from '../route.js'
import { may } from '../state.js'
import { asked, Pages, QueryField } from './jobs.js'

const Actions = ({ of }) => [['respawn', 'Respawn'], ['delete', 'Delete']].map(([what, word]) => html`
  <${Button} run=${() => allDead(of, what, of.count, of.q)} label=${`${word} the jobs of ${of.code} ${of.message}`}>${word}<//>`)

const Groups = ({ groups, tenant }) => html`
  <${Table} label="Groups" heads=${['#Jobs', 'Topic', 'Reason', '~Failure', 'Last', ...(may('admin') ? ['!'] : [])]}
    rows=${groups.map((of) => [
      of.q,
      html`<a href=${to('t', tenant, 'find') + `?q=${encodeURIComponent(of.q)}`}>${number(of.count)}</a>`,
      html`<${TopicLink} of=${of} />`,
      of.reason,
      html`<b>${of.code}</b> ${of.message}`,
      html`<${Time} at=${of.last_ms} />`,
      ...(may('admin') ? [html`<${Actions} of=${of} />`] : []),
    ])} />`

/** @type {import('./all.js').Page} */
export const dead = {
  title: () => 'Dead jobs',
  load: ({ params, query }, signal) => get(`${inTenant(params.tenant, 'dead', 'groups')}?${asked(query, {})}`, signal),
  // It reads many jobs.
  once: () => true,
  view: ({ place, data }) => html`
    <${QueryField} place=${place} />
    ${data.groups.length ? html`<${Groups} groups=${data.groups} tenant=${place.params.tenant} />` : html`<${Empty}>No job is dead.<//>`}
    <${Pages} place=${place} data=${data} />`,
}

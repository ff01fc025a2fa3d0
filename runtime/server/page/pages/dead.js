// @ts-check
// The dead in groups, by what killed them.
import { get, inTenant } from '../api.js'
import { number } from '../format.js'
import { html } from '../html.js'
import { Button, Table, Time, TopicLink } from '../parts.js'
import { toFind } from '../route.js'
import { beginBulk } from './bulk.js'
import { asked, Pages, QueryField } from './jobs.js'

const GroupActions = ({ of }) => ['Respawn', 'Delete'].map((word) => html`
  <${Button} run=${() => beginBulk(of.tenant, { q: of.q, action: word.toLowerCase() })} label=${`${word} the jobs of ${of.code} ${of.message}`}>${word} …<//>`)

const Groups = ({ groups, tenant }) => html`
  <${Table} label="Groups" heads=${['#Jobs', 'Topic', 'Reason', '~Failure', 'Last', '!']} none="No job is dead."
    rows=${groups.map((of) => [
      of.q,
      html`<a href=${toFind(tenant, of.q)}>${number(of.count)}</a>`,
      html`<${TopicLink} of=${of} />`,
      of.reason,
      html`<b>${of.code}</b> ${of.message}`,
      html`<${Time} at=${of.last_ms} />`,
      html`<${GroupActions} of=${of} />`,
    ])} />`

/** @type {import('./all.js').Page} */
export const dead = {
  title: () => 'Dead jobs',
  load: ({ params, query }, signal) => get(`${inTenant(params.tenant, 'dead', 'groups')}?${asked(query, {})}`, signal),
  // It reads many jobs.
  once: () => true,
  ask: QueryField,
  view: ({ place, data }) => html`
    <${QueryField} place=${place} />
    <${Groups} groups=${data.groups} tenant=${place.params.tenant} />
    <${Pages} place=${place} data=${data} />`,
}

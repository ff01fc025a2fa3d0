// @ts-check
// Who changed what lately, and who was refused.
import { get, inTenant } from '../api.js'
import { html } from '../html.js'
import { JobLink, State, Table, Time } from '../parts.js'

/** What an action was about: a job that can be opened, or the parts of its path. */
const ObjectOf = ({ of: { object, made }, tenant }) => {
  const { tenant: _, id, ...others } = object
  return html`${Object.values(others).join(' ')} ${id && html`<${JobLink} tenant=${tenant} id=${id} />`} ${made}`
}

/** @type {import('./all.js').Page} */
export const audit = {
  title: ({ params }) => `Changes and refusals of ${params.tenant}`,
  load: async ({ params }, signal) => (await get(inTenant(params.tenant, 'audit'), signal)).actions,
  rows: (data) => data.map((one) => one.at_ms),
  view: ({ place: { params }, data }) => html`
    <p class="none">The last ones since this server began; the audit log has all.</p>
    <${Table} label="Changes and refusals" none="None." heads=${['When', 'Who', 'What', '~Of', 'Answer']} rows=${data.map((of, n) => [
      data.length - n,
      html`<${Time} at=${of.at_ms} whole />`,
      of.actor || of.client,
      html`<span class="id">${of.method} ${of.route?.replace('/v1/tenants/{tenant}', '')}</span>`,
      html`<${ObjectOf} of=${of} tenant=${params.tenant} />`,
      html`<${State} name=${of.status < 300 ? 'good' : 'warn'} word=${of.problem ?? of.status ?? 'none'} />`,
    ])} />`,
}

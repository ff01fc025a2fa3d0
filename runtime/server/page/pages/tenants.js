// @ts-check
// The tenants that the store knows, for the operator.
import { get } from '../api.js'
import { html } from '../html.js'
import { Table } from '../parts.js'
import { to } from '../route.js'
import { may, state } from '../state.js'

/** @type {import('./all.js').Page} */
export const tenants = {
  title: () => 'Tenants',
  load: async (_, signal) => {
    // With one store only, there is nothing to say about where tenants are.
    const placed = may('admin') ? await get('v1/residences', signal).catch(() => null) : null
    return new Map(placed?.residences.map((one) => [one.tenant, one]) ?? [])
  },
  view: ({ data }) => html`
    <p>Every tenant that has or had jobs.</p>
    <${Table} label="Tenants" heads=${['Tenant', 'Store', 'Bill', 'Tokens']} rows=${state.tenants.map((name) => [
      name,
      html`<a href=${to('t', name)}>${name}</a>`,
      data.get(name) ? data.get(name).store + (data.get(name).from ? ` (moving out of ${data.get(name).from})` : '') : 'the only one',
      html`<a href=${to('t', name, 'bill')}>Bill and limits of ${name}</a>`,
      may('admin') && html`<a href=${to('t', name, 'tokens')}>Tokens of ${name}</a>`,
    ])} />`,
}

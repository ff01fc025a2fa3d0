// @ts-check
// What a tenant's attempts cost, and which of its limits are reached.
import { get, inTenant } from '../api.js'
import { DAY, dayOf, facts, number, short, size, span } from '../format.js'
import { html } from '../html.js'
import { Facts, Table, Time, TopicLink } from '../parts.js'
import { to } from '../route.js'
import { now, state } from '../state.js'
import { topicsOf } from './overview.js'

const DAYS = 30

/** What is added up: its head, and how it is shown. @type {Record<string, [string, (value: number) => any]>} */
const AMOUNTS = {
  attempts: ['#Attempts', number],
  run_us: ['#Run time', (us) => span(us / 1000)],
  fuel: ['#Fuel', short],
  memory_kib_ms: ['#MiB × s', (amount) => short(amount / 1_024_000)],
  bytes_in: ['#In', size],
  bytes_out: ['#Out', size],
  requests: ['#Requests', number],
}

/** Lines that have the same here, as one. */
function sums(lines, by) {
  /** @type {Map<string, any>} */
  const found = new Map()
  for (const line of lines) {
    const sum = found.get(line[by])
    if (sum) for (const name in AMOUNTS) sum[name] += line[name]
    else found.set(line[by], { ...line })
  }
  return [...found.values()]
}

const Costs = ({ by, head, first, lines }) => html`
  <${Table} label=${head} heads=${[head, ...Object.values(AMOUNTS).map(([words]) => words)]}
    rows=${lines.map((line) => [line[by] ?? '', first(line), ...Object.entries(AMOUNTS).map(([name, [, shown]]) => shown(line[name]))])} />`

/** @type {import('./all.js').Page} */
export const bill = {
  title: ({ params }) => `Bill of ${params.tenant}`,
  load: async ({ params: { tenant } }, signal) => {
    const from = dayOf(now() - (DAYS - 1) * DAY)
    const [bill, topics, limits] = await Promise.all([get(`${inTenant(tenant, 'bill')}?from=${from}`, signal), topicsOf(tenant, signal), state.data?.limits ?? get(inTenant(tenant, 'limits'), signal)])
    // To count what is stored takes time: that is done once.
    return { bill, limited: topics.filter((topic) => topic.limited), limits }
  },
  view: ({ place: { params: { tenant } }, data: { bill, limited, limits: { used, ...limits } } }) => html`
    ${bill.lines.length ? html`
      <${Costs} head="Day" by="day" first=${(line) => line.day ?? html`<b>${bill.from} to ${bill.to}</b>`} lines=${[...sums(bill.lines, 'day').reverse(), bill.total]} />
      <h2>By topic</h2>
      <${Costs} head="Topic" by="topic" first=${(line) => html`<${TopicLink} of=${line} />`} lines=${sums(bill.lines, 'topic')} />` : html`<p class="empty">No attempt has ended in the last ${DAYS} days.</p>`}
    <h2>Limits</h2><${Facts} of=${facts(limits).map(([name, value]) => [name, value === null ? 'none' : `${value}`])} />
    <h2>In use when this page was opened</h2><${Facts} of=${facts(used).map(([name, value]) => [name, /jobs|running|topics/.test(name) ? html`<a href=${to('t', tenant, name.replace('stored jobs', 'find'))}>${value}</a>` : value])} />
    <h2>Limits that are reached</h2>
    <${Table} label="Limits" none="None." heads=${['Topic', 'Limit', '#Used', '#Budget', 'Until']} rows=${limited.map((topic) => {
      const { limit, used, budget, until_ms: until } = topic.limited
      return [topic.topic, html`<${TopicLink} of=${topic} />`, limit, used && short(used), budget && short(budget), until ? html`<${Time} at=${until} />` : 'a running job ends']
    })} />`,
}

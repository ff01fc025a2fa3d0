// @ts-check
// The tenants that the store knows, for the operator: where each is, and how much there is to do and to mend.
import { get } from '../api.js'
import { number, rate } from '../format.js'
import { html } from '../html.js'
import { Count, Name, State, Table } from '../parts.js'
import { to, toFind } from '../route.js'
import { may, now } from '../state.js'
import { concerns, countOf, failuresOf, isBad, statesIn, stateWord } from '../words.js'
import { topicsOf } from './overview.js'

/** Tenants whose jobs are counted, and those that are asked for at a time. */
const COUNTED = 200
const TOGETHER = 4

/** The topics of tenants; none where the server does not say. */
async function topicsOfAll(tenants, signal) {
  /** @type {Map<string, any[]>} */
  const found = new Map()
  for (let n = 0; n < tenants.length; n += TOGETHER) {
    await Promise.all(tenants.slice(n, n + TOGETHER).map(async (tenant) => found.set(tenant, await topicsOf(tenant, signal).catch(() => null))))
  }
  return found
}

const Worst = ({ of, href }) => of[0]
  ? html`<a href=${href} title=${`${of[0].what}: ${of[0].why}`}><${State} name=${isBad(of[0]) ? 'alarm' : 'warn'} word=${number(of.length)} /></a>`
  : html`<${State} name="good" word="nothing" />`

/** @type {import('./all.js').Page} */
export const tenants = {
  title: () => 'Tenants',
  load: async (_, signal) => {
    // With one store only, there is nothing to say about where tenants are.
    const [{ tenants }, placed] = await Promise.all([get('v1/tenants', signal), may('admin') ? get('v1/placements', signal).catch(() => null) : null])
    const topics = await topicsOfAll(tenants.slice(0, COUNTED), signal)
    return { tenants, topics, stores: placed && new Map(placed.placements.map((one) => [one.tenant, one])) }
  },
  // It asks about all of them.
  once: () => true,
  view: ({ data: { tenants, stores, topics } }) => {
    const all = [...topics.values()].flatMap((of) => of ?? [])
    const states = statesIn(all)
    return html`
    <p class="none">Every tenant that has or had jobs.</p>
    <${Table} label="Tenants" heads=${['Tenant', ...(stores ? ['Store'] : []), '#Topics', ...states.map((state) => `#${stateWord(state)}`), '#Failed/s', 'Needs attention', ...(may('admin') ? [''] : [])]} rows=${tenants.map((name) => {
      const of = topics.get(name) ?? []
      const one = stores?.get(name)
      const sum = (value) => of.reduce((sum, topic) => sum + value(topic), 0)
      return [
        name,
        html`<a href=${to('t', name)}><${Name} of=${name} /></a>`,
        ...(stores ? [one && one.store + (one.from ? ` (moving out of ${one.from})` : '')] : []),
        html`<${Count} count=${of.length} href=${to('t', name, 'topics')} what=${`topics of ${name}`} />`,
        ...states.map((state) => html`<${Count} count=${sum((topic) => countOf(topic, state))} href=${/run|dead/.test(state) ? to('t', name, state) : toFind(name, `state:${state}`)} what=${`${state} jobs of ${name}`} kind=${state} />`),
        rate(sum((topic) => failuresOf(topic).failed)),
        topics.get(name) ? html`<${Worst} of=${concerns(of, now())} href=${to('t', name)} />` : 'not known',
        html`<a href=${to('t', name, 'bill')} aria-label=${`Bill of ${name}`}>Bill</a> <a href=${to('t', name, 'tokens')} aria-label=${`Tokens of ${name}`}>Tokens</a>`,
      ]
    })} />`
  },
}

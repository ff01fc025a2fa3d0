// @ts-check
// What runs jobs: runners, and pull workers that have some.
import { get } from '../api.js'
import { html } from '../html.js'
import { Banner, Count, Name, State, Table, Time } from '../parts.js'
import { toFind } from '../route.js'
import { now } from '../state.js'

/** After so long without a heartbeat a runner is marked, in milliseconds. */
const SILENT = 15_000

const Heartbeat = ({ at }) => html`<${State} name=${now() - at > SILENT ? 'warn' : 'good'} word=${html`<${Time} at=${at} />`} />`

/** @type {import('./all.js').Page} */
export const workers = {
  title: () => 'Workers',
  load: (_, signal) => get('v1/workers', signal),
  rows: (data) => data.workers.map((one) => one.worker),
  view: ({ data: { workers, complete } }) => html`
    ${!complete && html`<${Banner} kind="warn">More jobs run than were counted here.<//>`}
    <${Table} label="Workers" none="Nothing runs jobs." heads=${['Worker', 'Kind', 'Heartbeat', '#Running', '*Topics']} rows=${workers.map(({ worker, kind, heartbeat_at_ms: at, running, topics }) => {
      const places = topics.map((topic) => ['default', ...topic.split('/')].slice(-2))
      const query = `state:running worker:${kind === 'pull' ? `pull:${worker}:*` : worker}`.replace(/[^\w.:* -]/g, '*')
      return [
        worker,
        html`<span class="id"><${Name} of=${worker} /></span>`,
        kind === 'pull' ? 'pull worker' : kind,
        at ? html`<${Heartbeat} at=${at} />` : '–',
        new Set(places.map(([tenant]) => tenant)).size > 1 ? running : html`<${Count} count=${running} href=${running && toFind(places[0][0], query)} what="running" />`,
        places.map(([tenant, topic], n) => html`<a href=${toFind(tenant, `${query} topic:${topic}`)}><${Name} of=${topics[n]} /></a>`),
      ]
    })} />`,
}

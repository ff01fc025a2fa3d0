// @ts-check
// The jobs around a job, in the order in which they can run: every node is a link, and says what it waits for.
import { getIf, inTenant } from './api.js'
import { counted } from './format.js'
import { html } from './html.js'
import { JobLink, Progress, State } from './parts.js'

/** How far from the job, and how many jobs, are drawn. */
const DRAWN = 'depth=8&limit=60'
/** Jobs that a node names. */
const NAMED = 3

/** The graph of a job; null if it is alone. */
export async function flowOf(tenant, id, signal) {
  const graph = await getIf(`${inTenant(tenant, 'jobs', id, 'graph')}?${DRAWN}`, signal)
  return graph && (graph.edges.length || graph.nodes[0].waits_for) ? graph : null
}

/** The nodes in columns, each behind all those that it waits for. */
function columns({ nodes, edges }) {
  const places = new Map(nodes.map((node) => [node.id, 0]))
  // No path is longer than there are nodes.
  for (const _ of nodes) for (const { waiter, job } of edges) places.set(waiter, Math.max(places.get(waiter), places.get(job) + 1))
  const found = nodes.map((_, n) => nodes.filter((node) => places.get(node.id) === n))
  return found.filter((column) => column.length)
}

const Node = ({ tenant, node: { id, state }, edges, here }) => {
  const before = edges.filter((edge) => edge.waiter === id).map((edge) => edge.job)
  const ended = /finished|gone/.test(state) && edges.find((edge) => edge.job === id)?.ended
  return html`
    <li aria-current=${here ? 'true' : undefined}><${JobLink} tenant=${tenant} id=${id} />
      ${before[0] && html`<small>after ${before.slice(0, NAMED).join(', ')}${before[NAMED] && ` and ${before.length - NAMED} more`}</small>`} <${State} name=${ended || state} /></li>`
}

const Ended = ({ of: { total, ended, failed, open } }) => html`
  <${Progress} max=${total} value=${ended} label="Jobs that have ended">${ended} of ${counted(total, 'job')} ended${failed > 0 && `, ${failed} of them not done`}${open && '; not sealed'}<//>`

export const Flow = ({ tenant, flow }) => html`
  <h2>Workflow</h2>
  ${flow.nodes[0].waits_for && html`<${Ended} of=${flow.nodes[0].waits_for} />`}
  <div class="scroll" role="region" aria-label="Workflow" tabindex="0"><ol class="flow">
    ${columns(flow).map((column, n) => html`
      <li key=${n}><h3>Step ${n + 1}</h3><ul>${column.map((node) => html`<${Node} key=${node.id} tenant=${tenant} node=${node} edges=${flow.edges} here=${node === flow.nodes[0]} />`)}</ul></li>`)}
  </ol></div>
  ${flow.cut && html`<p class="none">There are more jobs around it.</p>`}`

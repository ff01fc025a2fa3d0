// @ts-check
// The jobs around a job as a drawing, from those that run first to those that run last: every node is a link, and lines lead to what waits for it.
import { getIf, inTenant } from './api.js'
import { counted } from './format.js'
import { html } from './html.js'
import { JobLink, Name, Progress, State } from './parts.js'

/** How far from the job, and how many jobs, are drawn. */
const DRAWN = 'depth=8&limit=200'
/** More jobs that are linked alike are one node. */
const ALIKE = 6
/** Jobs that a node names for a screen reader. */
const NAMED = 3
/** Of a node, and from one to the next, in pixels; so they are in the style. */
const NODE = { width: 200, height: 48, right: 264, down: 60 }

/** The graph of a job; null if it is alone. */
export async function flowOf(tenant, id, signal) {
  const graph = await getIf(`${inTenant(tenant, 'jobs', id, 'graph')}?${DRAWN}`, signal)
  return graph && (graph.edges.length || graph.nodes[0].waits_for) ? graph : null
}

/** The nodes with what is before and behind each, in groups of those that are alike; the job itself is alone. */
function groupsOf({ nodes, edges }) {
  /** @type {Map<string, any[]>} */
  const found = new Map()
  for (const node of nodes) {
    const before = edges.filter((edge) => edge.waiter === node.id).map((edge) => edge.job)
    const behind = edges.filter((edge) => edge.job === node.id)
    const ended = /finished|gone/.test(node.state) && behind[0]?.ended
    const like = node === nodes[0] ? '' : `${before.sort()}>${behind.map((edge) => edge.waiter).sort()}`
    found.set(like, [...(found.get(like) ?? []), { ...node, before, state: ended || node.state }])
  }
  return [...found.values()].flatMap((all) => (all.length > ALIKE ? [all] : all.map((one) => [one])))
}

/** The groups in columns, each behind all those that it waits for, with their places; and the lines between them. */
function drawn(flow) {
  const groups = groupsOf(flow).map((all) => ({ all, column: 0, row: 0 }))
  const groupOf = new Map(groups.flatMap((group) => group.all.map((one) => [one.id, group])))
  const links = [...new Map(flow.edges.map(({ job, waiter, ended }) => {
    const [from, to] = [groupOf.get(job), groupOf.get(waiter)]
    return [`${groups.indexOf(from)} ${groups.indexOf(to)}`, { from, to, ended: from.all[1] ? null : ended }]
  })).values()]
  // No path is longer than there are nodes.
  for (const _ of groups) for (const { from, to } of links) to.column = Math.max(to.column, from.column + 1)
  const lines = links.map((link) => ({ ...link, way: [link.from, ...bendsOf(link, groups), link.to] }))
  const pieces = lines.flatMap(({ way }) => way.slice(1).map((to, n) => ({ from: way[n], to })))
  const columns = groups.map((_, n) => groups.filter((group) => group.column === n)).filter((column) => column.length)
  const rows = Math.max(...columns.map((column) => column.length))
  // Twice: a column is ordered by the one before it, and the first ones by those behind them.
  for (const order of [columns, columns.toReversed(), columns]) {
    for (const column of order) {
      const middle = (group) => {
        const near = pieces.flatMap(({ from, to }) => (from === group ? to.row : to === group ? from.row : []))
        return near.reduce((sum, row) => sum + row, 0) / near.length
      }
      column.sort((a, b) => middle(a) - middle(b))
      column.forEach((group, n) => (group.row = (rows - column.length) / 2 + n))
    }
  }
  return { columns: columns.map((column) => column.filter(({ all }) => all[0])), lines, width: columns.length * NODE.right - NODE.right + NODE.width, height: rows * NODE.down }
}

/** Where a line passes the columns between its nodes: a place of its own in each, shared by all that lead to the same node. */
function bendsOf({ from, to }, groups) {
  return Array.from({ length: to.column - from.column - 1 }, (_, n) => {
    const column = from.column + 1 + n
    const found = groups.find((group) => group.bend === to && group.column === column) ?? { all: [], bend: to, column, row: 0 }
    if (!groups.includes(found)) groups.push(found)
    return found
  })
}

/** A line from the right side of a node to the left side of another, straight past other columns. */
function lineOf({ way }) {
  const right = ({ column }) => column * NODE.right + NODE.width
  const middle = ({ row }) => row * NODE.down + NODE.height / 2
  const parts = way.slice(1).map((to, n) => {
    const [x, end] = [right(way[n]), to.column * NODE.right - (to.bend ? 0 : 5)]
    return `C${x + 40} ${middle(way[n])} ${end - 40} ${middle(to)} ${end} ${middle(to)}${to.bend ? `H${right(to)}` : ''}`
  })
  return `M${right(way[0])} ${middle(way[0])}${parts.join('')}m-6 -4l6 4l-6 4`
}

/** Which states are to be seen first. */
const ORDER = 'dead expired cancelled running ready delayed waiting'
const urgency = ({ state }) => (ORDER.indexOf(state) + 99) % 99

/** How many jobs are in which state, those that a person looks for first. */
function tally(all) {
  const counts = new Map()
  for (const { state } of all.toSorted((a, b) => urgency(a) - urgency(b))) counts.set(state, (counts.get(state) ?? 0) + 1)
  return [...counts]
}

/** Where there is no room for all, the job itself is seen first. */
const show = (element) => element && (element.closest('.scroll').scrollLeft = element.offsetLeft - NODE.right / 4)

const Group = ({ all }) => html`
  <button class="link" onClick=${() => document.getElementById('members')?.click()}>${counted(all.length, 'job')}</button>
  <span class="bar">${tally(all).map(([state, count]) => html`<${State} name=${state} word=${count} title=${state} />`)}</span>`

const Node = ({ tenant, of: { id, state, topic, before } }) => html`
  <${JobLink} tenant=${tenant} id=${id} most=${22} />
  ${before[0] && html`<span class="unseen">after ${before.slice(0, NAMED).join(', ')}${before[NAMED] && ` and ${before.length - NAMED} more`}</span>`}
  <span class="bar"><span class="none"><${Name} of=${topic} most=${14} /></span> <${State} name=${state} /></span>`

const Ended = ({ of: { total, ended, failed, open } }) => html`
  <${Progress} max=${total} value=${ended} label="Jobs that have ended">${ended} of ${counted(total, 'job')} ended${failed > 0 && `, ${failed} of them not done`}${open && '; not sealed'}<//>`

/** The jobs of groups. */
const Members = ({ tenant, groups }) => groups.length > 0 && html`
  <details><summary id="members">${counted(groups.flat().length, 'job')} that are drawn as one</summary>
    <ul class="members">${groups.flat().sort((a, b) => urgency(a) - urgency(b)).map(({ id, state }) => html`<li key=${id}><${State} name=${state} short /> <${JobLink} tenant=${tenant} id=${id} /></li>`)}</ul>
  </details>`

export function Flow({ tenant, flow }) {
  const { columns, lines, width, height } = drawn(flow)
  return html`
  <h2>Workflow</h2>
  ${flow.nodes[0].waits_for?.total > 0 && html`<${Ended} of=${flow.nodes[0].waits_for} />`}
  <div class="scroll" role="region" aria-label="Workflow" tabindex="0"><div class="flow" style=${{ width, height }}>
    <svg width=${width} height=${height} aria-hidden="true">${lines.map((line) => html`<path class=${line.ended ?? 'open'} d=${lineOf(line)} />`)}</svg>
    <ol>${columns.map((column, n) => html`
      <li key=${n}><h3 class="unseen">Step ${n + 1}</h3><ul>${column.map(({ all, row }) => {
        const here = all[0].id === flow.nodes[0].id
        return html`
        <li key=${all[0].id} class=${all[1] ? '' : all[0].state} aria-current=${here ? 'true' : undefined} ref=${here ? show : undefined} style=${{ left: n * NODE.right, top: row * NODE.down }}>
          ${all[1] ? html`<${Group} all=${all} />` : html`<${Node} tenant=${tenant} of=${all[0]} />`}</li>`
      })}</ul></li>`)}</ol>
  </div></div>
  <${Members} tenant=${tenant} groups=${columns.flat().map((group) => group.all).filter((all) => all[1])} />
  ${flow.cut && html`<p class="none">There are more jobs around it.</p>`}`
}

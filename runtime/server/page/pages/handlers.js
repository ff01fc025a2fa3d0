// @ts-check
// The handlers of a tenant's topics: their versions, why one is refused, and a form for a new component.
import { act } from '../actions.js'
import { inTopic, send } from '../api.js'
import { html } from '../html.js'
import { Field, Form, Name, State, Table, TopicLink } from '../parts.js'
import { may } from '../state.js'
import { topicsOf } from './overview.js'

/** The topics by their handlers. */
function byHandler(topics) {
  /** @type {Map<string, any[]>} */
  const found = new Map()
  for (const topic of topics) if (topic.handler) found.set(topic.handler, [...(found.get(topic.handler) ?? []), topic])
  return [...found].sort(([a], [b]) => (a < b ? -1 : 1))
}

function HandlerState({ topic }) {
  if (topic.handler === 'external') return html`<${State} name="good" word="pull workers" />`
  if (topic.refused) return html`<${State} name="warn" word=${topic.version ? 'new file refused' : 'refused'} /> <span class="text">${topic.refused}</span>`
  if (topic.lacking.length) return html`<${State} name="warn" word="lacks grants" /> ${topic.lacking.join(', ')}`
  return topic.version ? html`<${State} name="good" word="serves" />` : html`<${State} name="warn" word="no component" />`
}

/** Topics that are named at once. */
const LINKED = 8

const Many = ({ topics }) => html`
  ${topics.slice(0, LINKED).map((topic) => html`<${TopicLink} of=${topic} /> `)}
  ${topics.length > LINKED && html`<details><summary>${topics.length - LINKED} more</summary>${topics.slice(LINKED).map((topic) => html`<${TopicLink} of=${topic} /> `)}</details>`}`

function upload(form, tenant) {
  const topic = form.get('topic')
  act(async () => {
    const options = { method: 'PUT', body: form.get('file'), headers: { 'Content-Type': 'application/wasm' } }
    const served = await (await send(inTopic({ tenant, topic }, 'handler'), options)).json()
    return `${served.handler}@${served.version} serves now.`
  })
}

const Upload = ({ tenant, topics }) => html`
  <h2>Upload a component</h2>
  <${Form} run=${(form) => upload(form, tenant)} verb="Upload">
    <${Field} label="Topic"><select name="topic" required>${topics.map((topic) => html`<option>${topic.topic}</option>`)}</select><//>
    <${Field} label="Component" hint="It is checked first; one that fails changes nothing."><input type="file" name="file" accept=".wasm,application/wasm" required /><//>
  <//>`

/** @type {import('./all.js').Page} */
export const handlers = {
  title: () => 'Handlers',
  load: ({ params }, signal) => topicsOf(params.tenant, signal),
  view: ({ place: { params }, data }) => html`
    <${Table} label="Handlers" none="No handlers." heads=${['Handler', 'Version', 'State', '*Topics']} rows=${byHandler(data).map(([name, topics]) => [
      name,
      html`<${Name} of=${name} />`,
      html`<span class="id">${topics[0].version ?? '–'}</span>`,
      html`<${HandlerState} topic=${topics.find((topic) => topic.lacking.length) ?? topics[0]} />`,
      html`<${Many} topics=${topics} />`,
    ])} />
    ${may('admin') && data.length > 0 && html`<${Upload} tenant=${params.tenant} topics=${data} />`}`,
}

// @ts-check
// A form for a new job, empty or filled with what another job has.
import { get, inTenant, post } from '../api.js'
import { asJson, asText, bytesOf } from '../bytes.js'
import { html } from '../html.js'
import { Choice, Field, Form, JobLink, PRIORITIES } from '../parts.js'
import { toJob, trailOf } from '../route.js'
import { draw, mayOpen, say } from '../state.js'

/** What a form begins with. */
const BLANK = { kind: 'json', body: '{}', type: '', metadata: [], priority: 'normal', key: '', attempts: '' }

/** The same of a job's spec. */
function filled(spec) {
  const text = asText(bytesOf(spec.body))
  const json = text === null || (spec.body.content_type ?? 'application/json') !== 'application/json' ? null : asJson(text)
  const [kind, body] = json !== null ? ['json', json] : text !== null ? ['text', text] : ['base64', spec.body.base64]
  const { metadata, priority, key, attempts_max: attempts } = spec
  return { kind, body, type: spec.body.content_type ?? '', metadata, priority, key: key ?? '', attempts: attempts ?? '' }
}

/** The body's members of a push. JSON goes as it is written, to the last digit. */
function members(kind, body) {
  if (kind === 'base64') return `"body_base64":${JSON.stringify(body.trim())}`
  if (kind === 'text') return `"body_text":${JSON.stringify(body)}`
  JSON.parse(body)
  return `"body":${body}`
}

/** Lines of `name: value` as an object, whose names may repeat. */
function metadata(lines) {
  const pairs = lines.split('\n').filter((line) => line.trim()).map((line) => {
    const at = line.indexOf(':')
    if (at < 1) throw new Error(`This line of the metadata has no colon: ${line}`)
    return `${JSON.stringify(line.slice(0, at).trim())}:${JSON.stringify(line.slice(at + 1).trim())}`
  })
  return `{${pairs.join(',')}}`
}

/** The whole push, as text. */
function written(form) {
  const of = (name) => String(form.get(name) ?? '')
  const options = {
    priority: of('priority'),
    ...(of('type') && { content_type: of('type') }),
    ...(of('key') && { key: of('key') }),
    ...(of('attempts') && { attempts_max: Number(of('attempts')) }),
    ...(Number(of('delay')) > 0 && { delay_ms: Math.round(Number(of('delay')) * 1000) }),
  }
  return `{${members(of('kind'), of('body'))},"metadata":${metadata(of('metadata'))},${JSON.stringify(options).slice(1)}`
}

async function submit(form, { tenant, topic }) {
  try {
    const text = written(form)
    const { id, status, warnings = [] } = await post(inTenant(tenant, 'topics', topic, 'jobs'), text)
    const words = status === 'stored' ? `${id} is pushed.` : `Nothing is stored: ${id} ${status === 'exists' ? 'exists already' : 'holds the unique value'}.`
    if (mayOpen('job')) location.hash = toJob(tenant, id)
    say([words, ...warnings].join(' '), status !== 'stored')
  } catch (error) {
    say(error instanceof SyntaxError ? `The body is no JSON: ${error.message}` : error.message, true)
  }
  draw()
}

/** @type {import('./all.js').Page} */
export const push = {
  title: ({ params }) => `Push a job to ${params.topic}`,
  under: 'topics',
  trail: ({ params }) => trailOf(params),
  once: () => true,
  load: async ({ params, query }, signal) => {
    const from = query.get('from')
    if (!from) return BLANK
    const view = await get(inTenant(params.tenant, 'jobs', from), signal)
    return view.job ? filled(view.job.spec) : BLANK
  },
  view: ({ place: { params, query }, data }) => html`
    ${query.has('from') && html`<p>With the content of <${JobLink} tenant=${params.tenant} id=${query.get('from')} />. The new job has an id of its own.</p>`}
    <${Form} run=${(form) => submit(form, params)} verb="Push">
      <${Field} label="Body"><textarea name="body" rows="10" defaultValue=${data.body} /><//>
      <div class="row">
        <${Field} label="The body is"><${Choice} name="kind" value=${data.kind} of=${[['json', 'JSON'], ['text', 'Text'], ['base64', 'Bytes, as base64']]} /><//>
        <${Field} label="Media type"><input name="type" defaultValue=${data.type} /><//>
      </div>
      <div class="row">
        <${Field} label="Delay in seconds"><input name="delay" type="number" min="0" step="any" /><//>
        <${Field} label="Priority"><${Choice} name="priority" value=${data.priority} of=${PRIORITIES} /><//>
        <${Field} label="Attempts at most"><input name="attempts" type="number" min="1" max="1000" defaultValue=${data.attempts} /><//>
        <${Field} label="Key"><input name="key" defaultValue=${data.key} /><//>
      </div>
      <${Field} label="Metadata" hint="A line of name: value each."><textarea name="metadata" rows="3" defaultValue=${data.metadata.map((pair) => pair.join(': ')).join('\n')} /><//>
    <//>`,
}

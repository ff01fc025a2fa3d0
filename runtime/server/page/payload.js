// @ts-check
// Bytes of a job, as JSON, text or hexadecimal digits, and as a file.
import { asHex, asJson, asText, bytesOf, SHOWN } from './bytes.js'
import { size } from './format.js'
import { html } from './html.js'
import { Button } from './parts.js'
import { draw } from './state.js'

/** Longer texts are not read as JSON. */
const PARSED = 1 << 20

/** How the person wants to see payloads: by name. @type {Map<string, string>} */
const chosen = new Map()
/** The last few payloads that were decoded. @type {Map<string, ReturnType<typeof forms>>} */
const known = new Map()

/** What a payload can be shown as. */
function forms(payload) {
  const bytes = bytesOf(payload)
  const text = asText(bytes)
  const json = text !== null && text.length <= PARSED ? asJson(text) : null
  return { bytes, JSON: json && json.slice(0, SHOWN), Text: text && text.slice(0, SHOWN), Hex: asHex(bytes), cut: { JSON: json && json.length > SHOWN, Text: text && text.length > SHOWN } }
}

function remembered(payload) {
  const key = payload.text === undefined ? `base64 ${payload.base64}` : `text ${payload.text}`
  const found = known.get(key) ?? forms(payload)
  if (!known.has(key) && known.size > 8) known.clear()
  known.set(key, found)
  return found
}

function save(bytes, name) {
  const url = URL.createObjectURL(new Blob([/** @type {any} */ (bytes)]))
  Object.assign(document.createElement('a'), { href: url, download: name }).click()
  URL.revokeObjectURL(url)
}

/** @param {{ of: { text?: string, base64?: string, content_type: string | null }, name: string }} props */
export function Payload({ of, name }) {
  const shown = /** @type {Record<string, any>} */ (remembered(of))
  const kinds = ['JSON', 'Text', 'Hex'].filter((kind) => shown[kind] !== null)
  const wanted = chosen.get(name) ?? ''
  const kind = kinds.includes(wanted) ? wanted : kinds[0]
  const facts = [size(shown.bytes.length), of.content_type].filter(Boolean).join(' · ')
  if (shown.bytes.length === 0) return html`<p class="empty">${/x-hidden/.test(of.content_type ?? '') ? 'Hidden: only an admin of the server sees it.' : 'Empty.'}</p>`
  return html`<div class="payload">
    <div class="bar">${kinds.map((one) => html`<button aria-pressed=${one === kind} onClick=${() => (chosen.set(name, one), draw())}>${one}</button>`)}
      <span class="none">${facts}</span><${Button} run=${() => save(shown.bytes, name)} label=${`Save the ${name}`}>Save<//></div>
    <pre tabindex="0" aria-label=${`${name} as ${kind}`} role="region">${shown[kind]}</pre>
    ${shown.cut[kind] && html`<p class="none">Only the beginning is shown: save it to see all.</p>`}
  </div>`
}

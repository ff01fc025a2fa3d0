// @ts-check
// The tokens of a tenant: list, make, revoke.
import { act, ask } from '../actions.js'
import { get, inTenant, post, remove } from '../api.js'
import { DAY, facts } from '../format.js'
import { html } from '../html.js'
import { Banner, Button, Field, Form, Table, Time } from '../parts.js'
import { state } from '../state.js'

const SCOPES = ['push', 'work', 'read', 'admin']

/** The text of a token that was made just now. The server shows it this once. @type {string | null} */
let made = null

function make(form, target, tenant) {
  const days = Number(form.get('days'))
  const wanted = { scopes: form.getAll('scope'), description: form.get('description'), ...(days && { expires_in_ms: days * DAY }) }
  act(async () => {
    made = (await post(inTenant(tenant, 'tokens'), wanted)).text
    target.reset()
    return 'The token is made. Its text is shown this once.'
  })
}

const revoke = (tenant, token) =>
  ask({
    title: 'Revoke the token?',
    text: `${token.id} ${token.description} and every token that was made with it stop working.`,
    verb: 'Revoke',
    run: async () => ((await remove(inTenant(tenant, 'tokens', token.id))).revoked ? `${token.id} is revoked.` : `${token.id} was revoked before.`),
  })

const NewToken = ({ tenant }) => html`
  <h2>Make a token</h2>
  <${Form} run=${(form, target) => make(form, target, tenant)} verb="Make the token">
    <fieldset><legend>It may</legend>${SCOPES.filter((scope) => state.me.scopes.includes(scope)).map((scope) => html`
      <label class="check"><input type="checkbox" name="scope" value=${scope} /> ${scope}</label>`)}</fieldset>
    <${Field} label="What it is for"><input name="description" maxlength="200" /><//>
    <${Field} label="Days until it expires" hint="Left empty: it is valid until it is revoked."><input name="days" type="number" min="1" max="3650" /><//>
  <//>`

/** @type {import('./all.js').Page} */
export const tokens = {
  title: ({ params }) => `Tokens of ${params.tenant}`,
  arrive: () => (made = null),
  load: async ({ params }, signal) => (await get(inTenant(params.tenant, 'tokens'), signal)).tokens,
  view: ({ place: { params }, data }) => html`
    ${made && html`<${Banner}><strong>The new token:</strong> <code class="id">${made}</code><//>`}
    <${Table} label="Tokens" none="The tenant has no tokens of its own." heads=${['Token', '~What it is for', 'It may', 'Limits', 'Made', 'By', 'Expires', '!']} rows=${data.map((token) => [
      token.id,
      html`<span class="id">${token.id}</span>`,
      token.description,
      token.scopes.join(', '),
      facts(token.limits).filter(([, value]) => value !== null).map((pair) => pair.join(' ')).join(', ') || 'none',
      html`<${Time} at=${token.created_at_ms} />`,
      html`<span class="id">${token.made_by ?? '–'}</span>`,
      token.expires_at_ms ? html`<${Time} at=${token.expires_at_ms} />` : 'never',
      html`<${Button} run=${() => revoke(params.tenant, token)} label=${`Revoke ${token.id}`}>Revoke<//>`,
    ])} />
    <${NewToken} tenant=${params.tenant} />`,
}

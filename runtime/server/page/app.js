// @ts-check
// Begins the page: who asks, which tenants there are, and then the place that the address names.
import { ask } from './actions.js'
import { get, keepToken, startAnew, takeToken, token } from './api.js'
import { Dialog, Login } from './dialog.js'
import { Frame, titleNow } from './frame.js'
import { html } from './html.js'
import { onKey, tenantNow } from './keys.js'
import { arrive } from './live.js'
import { placeOf, to } from './route.js'
import { draw, isOperator, may, onDraw, state } from './state.js'
import { applyTheme, nameTab } from './theme.js'
import { render } from './vendor/preact.js'

/** When to ask again for a server that does not answer, and how old a message is that does not belong to a new place. */
const AGAIN = 3000
const OLD = 1000

const root = /** @type {HTMLElement} */ (document.getElementById('root'))

onDraw(() => {
  nameTab(titleNow())
  render(html`${state.login !== null ? html`<${Login} />` : html`<${Frame} />`}<${Dialog} />`, root)
})

/** Learns who asks and what there is to see. */
async function begin() {
  try {
    ;[state.about, state.me] = await Promise.all([get('v1'), get('v1/me')])
    state.problem = null
    state.tenants = [state.me.tenant ?? 'default']
  } catch (error) {
    state.problem = error
    if (error.status === 401) state.login = error.message
    else setTimeout(begin, AGAIN)
    useLink()
    return draw()
  }
  go()
  if (isOperator() && may('read')) listTenants()
}

/** The place need not wait for them. A fresh store knows none. */
const listTenants = () =>
  get('v1/tenants').then(({ tenants }) => {
    state.tenants = [...new Set(['default', ...tenants])].sort()
    draw()
  }, () => setTimeout(listTenants, AGAIN))

/** The token of a link that is not used yet. @type {string | null} */
let offered = null

/**
 * Goes on with the token of a link. Another person may have written the link, so that this one works for them: a token that is in use is not
 * replaced unasked.
 */
function useLink() {
  offered = takeToken() ?? offered
  const found = offered
  if (!found || found === token()) return
  const run = async () => (startAnew(found), 'Loading …')
  if (state.me) {
    offered = null
    ask({ title: 'Use the token of the link?', text: 'Everything that is done in this tab is then done with that token. Use only a link from a person whom you trust.', verb: 'Use it', run })
  } else if (state.login !== null) run()
  else if (!token()) keepToken(found)
}

/** Goes to the place that the address names. */
function go() {
  useLink()
  if (!location.hash.startsWith('#/')) history.replaceState(null, '', to('t', tenantNow()))
  const before = state.place?.path
  state.place = placeOf(location.hash)
  state.tenant = state.place?.params.tenant ?? state.tenant
  if (state.place?.path === before && before !== undefined) return redraw()
  state.menu = false
  if (state.notice && Date.now() - state.notice.at > OLD) state.notice = null
  arrive()
  draw()
  // A new page begins at its heading, for the keyboard and the screen reader.
  requestAnimationFrame(() => requestAnimationFrame(() => /** @type {HTMLElement | null} */ (document.querySelector('h1'))?.focus()))
}

/** The same place with another query: another page of a list is loaded, a filter is only drawn. */
function redraw() {
  if (state.place?.page === 'topics') draw()
  else arrive(true)
}

applyTheme()
addEventListener('hashchange', go)
addEventListener('keydown', onKey)
draw()
useLink()
begin()

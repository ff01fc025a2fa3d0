// @ts-check
// Begins the page: who asks, which tenants there are, and then the place that the address names.
import { get, takeToken } from './api.js'
import { Dialog, Login } from './dialog.js'
import { Frame } from './frame.js'
import { html } from './html.js'
import { onKey, tenantNow } from './keys.js'
import { arrive } from './live.js'
import { pages } from './pages/all.js'
import { placeOf, to } from './route.js'
import { draw, isOperator, may, onDraw, state } from './state.js'
import { applyTheme, nameTab } from './theme.js'
import { render } from './vendor/preact.js'

/** When to ask again for a server that does not answer, and how old a message is that does not belong to a new place. */
const AGAIN = 3000
const OLD = 1000

const root = /** @type {HTMLElement} */ (document.getElementById('root'))

onDraw(() => render(state.login !== null ? html`<${Login} />` : html`<${Frame} /><${Dialog} />`, root))

/** Learns who asks and what there is to see. */
async function begin() {
  try {
    ;[state.about, state.me] = await Promise.all([get('v1'), get('v1/me')])
    state.problem = null
    state.tenants = [state.me.tenant ?? 'default']
  } catch (error) {
    if (error.status === 401) state.login = error.message
    else setTimeout(begin, AGAIN)
    state.problem = error
    nameTab('')
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

/** Goes to the place that the address names. */
function go() {
  if (takeToken()) return location.reload()
  if (!location.hash.startsWith('#/')) history.replaceState(null, '', to('t', tenantNow()))
  const before = state.place?.path
  state.place = placeOf(location.hash)
  if (state.place?.path === before && before !== undefined) return redraw()
  nameTab((state.place && pages[state.place.page].title(state.place)) || 'Gristmill')
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

takeToken()
applyTheme()
addEventListener('hashchange', go)
addEventListener('keydown', onKey)
draw()
begin()

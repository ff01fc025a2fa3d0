// @ts-check
// What is around every page: the name of the server, the tenants, the search, the links, and what was said last.
import { get, inTenant, startAnew } from './api.js'
import { cut, span } from './format.js'
import { html } from './html.js'
import { Icon } from './icons.js'
import { links, tenantNow } from './keys.js'
import { refresh, setLive, showNewer } from './live.js'
import { pages } from './pages/all.js'
import { Banner, Button, Field, Form, State, Words } from './parts.js'
import { to, toFind, toJob, toTopic } from './route.js'
import { draw, may, mayOpen, scopeOf, state } from './state.js'
import { inkOn, nextTheme, theme } from './theme.js'

/** The page of the place. */
const pageNow = () => (state.place ? pages[state.place.page] : undefined)

/** What the page is about is in a state, if it is loaded. @returns {[string, string, string?] | undefined} */
const statusNow = () => state.data && pageNow()?.status?.(state.data)

/** What the tab is called. */
export const titleNow = () => (state.me && state.place ? [statusNow()?.[1], pageNow()?.title(state.place)].filter(Boolean).join(' · ') : '')

function Nav() {
  const all = links()
  const here = pageNow()?.under ?? state.place?.page
  return html`
  <nav class=${`nav ${state.menu ? 'open' : ''}`} id="nav" aria-label="Pages"><div>${[...new Set(all.map((link) => link.group))].map((group) => html`
    <h2>${group}</h2><ul>${all.filter((link) => link.group === group).map(({ words, page, href }) => html`
    <li><a href=${href} aria-current=${here === page ? 'page' : undefined}>${words}</a></li>`)}</ul>`)}</div></nav>`
}

/** Opens what was searched for: a topic of that name, else the job of that id, else the jobs that fit the query. */
async function search(event) {
  event.preventDefault()
  const field = /** @type {HTMLInputElement} */ (document.getElementById('search'))
  const wanted = field.value.trim()
  const tenant = tenantNow()
  if (!wanted) return
  const found = (where) => !/[:<>"\s]/.test(wanted) && get(where).then(() => true, () => false)
  if (await found(inTenant(tenant, 'topics', wanted))) location.hash = toTopic({ tenant, topic: wanted })
  else if (await found(inTenant(tenant, 'jobs', wanted))) location.hash = toJob(tenant, wanted)
  else location.hash = toFind(tenant, wanted)
  field.value = ''
  field.blur()
}

const pickTenant = (event) => (location.hash = to('t', event.target.value))

function Badge() {
  const { name, colour } = state.about ?? {}
  return name && html`<span class="badge" style=${colour && { background: colour, color: inkOn(colour) }}>${name}</span>`
}

const leave = () => startAnew(null)

function showMenu() {
  state.menu = !state.menu
  draw()
}

const Top = () => html`
  <header class="top">
    <button class="menu" aria-expanded=${state.menu} aria-controls="nav" onClick=${showMenu}>Menu</button>
    <a class="brand" href=${to('t', tenantNow())}><${Icon} name="mill" />Gristmill</a><${Badge} />
    <label class="tenant"><span class="unseen">Tenant</span>
      <select onChange=${pickTenant}>${[...new Set([...state.tenants, tenantNow()])].map((name) => html`<option value=${name} selected=${name === tenantNow()}>${cut(name)}</option>`)}</select></label>
    ${(!state.me || may('read')) && html`<form role="search" onSubmit=${search}><label class="unseen" for="search">Topic, job id or query</label><input id="search" type="search" placeholder="Topic, id or query" autocomplete="off" /></form>`}
    <span class="grow" />
    <${Button} run=${() => setLive(!state.live)} label=${state.live ? 'live: pause' : 'paused: go on'}><${Icon} name=${state.live ? 'live' : 'paused'} />${state.live ? 'live' : 'paused'}<//>
    <${Button} run=${nextTheme} label=${`${theme()}: change the colours`}>${theme()}<//>
    ${state.me?.token && html`<span class="none" title=${state.me.token.description}>${state.me.scopes.join(', ') || 'nothing'}</span><${Button} run=${leave}>Log out<//>`}
  </header>`

const TROUBLES = { 0: 'There is no connection.', 400: 'The server does not understand this.', 403: 'Your token does not allow this.', 404: 'This was not found.' }

const Trouble = ({ problem }) => html`
  <${Banner} kind="bad" button=${html`<${Button} run=${refresh}>Try again<//>`}>
    <strong>${TROUBLES[problem.status] ?? 'The server did not answer as wanted.'}</strong> <span class="text"><${Words} of=${problem.message} /></span>
    ${state.data && html` What is below is ${span(Date.now() - state.loadedAt)} old.`}<//>`

/** What stands in place of a page that the token does not allow: what it allows, and the way to the one thing that needs no look. */
const Denied = ({ page }) => html`
  <${Banner} kind="warn"><strong>${TROUBLES[403]}</strong> <${Words} of=${`This page needs \`${scopeOf(page)}\`; your token allows ${state.me.scopes.map((scope) => `\`${scope}\``).join(', ') || 'nothing'}.`} /><//>
  ${may('push') && html`<h2>Push a job</h2>
    <${Form} run=${(form) => (location.hash = toTopic({ tenant: tenantNow(), topic: String(form.get('topic')).trim() }, 'push'))} verb="Write it">
      <${Field} label="Topic"><input name="topic" required /><//>
    <//>`}`

const LOADING = html`<p class="empty">Loading …</p>`

/** The way back, from the far to the near. */
const Trail = ({ of = [] }) => of.length > 0 && html`<nav class="trail" aria-label="Way back">${of.map(([href, words]) => html`<a href=${href}>${words}</a>`)}</nav>`

function Main() {
  if (!state.me) return html`<main id="main"><h1>Gristmill</h1>${state.problem ? html`<${Trouble} problem=${state.problem} />` : LOADING}</main>`
  const page = pageNow()
  if (!page || !state.place) return html`<main id="main" tabindex="-1"><h1>There is no such page</h1><p><a href=${to('t', tenantNow())}>Overview</a></p></main>`
  if (!mayOpen(state.place.page)) return html`<main id="main" tabindex="-1" aria-busy="false"><div class="head"><h1 tabindex="-1">${page.title(state.place)}</h1></div><${Denied} page=${state.place.page} /></main>`
  const ready = !page.load || state.data
  const [icon, word, title] = statusNow() ?? []
  return html`
    <main id="main" tabindex="-1" aria-busy=${!ready && !state.problem}>
      <${Trail} of=${page.trail?.(state.place, state.data)} />
      <div class="head"><h1 tabindex="-1">${page.title(state.place)}</h1>${word && html`<${State} name=${icon} word=${word} title=${title} />`}</div>
      ${state.problem && html`<${Trouble} problem=${state.problem} />`}
      ${state.newer && html`<${Banner} button=${html`<${Button} run=${showNewer}>Show them<//>`}>The rows have changed.<//>`}
      ${ready ? html`<${page.view} key=${state.place.path} place=${state.place} data=${state.data} />` : state.problem ? page.ask && html`<${page.ask} place=${state.place} />` : LOADING}
    </main>`
}

/** What was said last: read out, and on the screen until it is closed. */
const Notice = () => html`
  <div class="notices" role="status" aria-live="polite">${state.notice && html`
    <div class=${`notice ${state.notice.bad ? 'bad' : ''}`}><${Icon} name=${state.notice.bad ? 'bad' : 'good'} /><span class="text"><${Words} of=${state.notice.text} /></span>
      <button aria-label="Close the message" onClick=${() => ((state.notice = null), draw())}>×</button></div>`}</div>`

function skip(event) {
  event.preventDefault()
  document.getElementById('main')?.focus()
}

export const Frame = () => html`
  <a class="skip" href="#main" onClick=${skip}>Skip to the content</a>
  <${Top} /><${Nav} /><${Main} /><${Notice} />`

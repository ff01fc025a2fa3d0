// @ts-check
// Requests to the server that this page came from, at addresses relative to it, so that any path before it works.
import { state } from './state.js'

const TOKEN_KEY = 'gristmill-token'

/** What an answer that is no success says. Status 0: there was no answer. */
export const problem = (detail, status = 0) => Object.assign(new Error(detail), { status })

export const token = () => sessionStorage.getItem(TOKEN_KEY)

export function keepToken(text) {
  if (text) sessionStorage.setItem(TOKEN_KEY, text)
  else sessionStorage.removeItem(TOKEN_KEY)
}

/** Begins where another token begins: the place of the one before may be of a tenant that this one does not see. */
export function startAnew(text) {
  keepToken(text)
  history.replaceState(null, '', location.pathname + location.search)
  location.reload()
}

/** The token of `#token=…`, which is removed from the address at once. */
export function takeToken() {
  const found = /^#token=(.+)$/.exec(location.hash)
  if (found) history.replaceState(null, '', location.pathname + location.search + (state.place ? `#/${state.place.path}` : ''))
  return found && decodeURIComponent(found[1])
}

/** A path of encoded parts. */
export const path = (...parts) => parts.map(encodeURIComponent).join('/')

/** A path below a tenant. */
export const inTenant = (tenant, ...parts) => path('v1', 'tenants', tenant, ...parts)

/** A path below a topic. */
export const inTopic = ({ tenant, topic }, ...parts) => inTenant(tenant, 'topics', topic, ...parts)

/** Sends a request and returns the response as it comes. */
export async function send(where, options = {}) {
  const text = token()
  const headers = { ...options.headers, ...(text && { Authorization: `Bearer ${text}` }) }
  /** @type {Response} */
  let response
  try {
    response = await fetch(where, { ...options, headers, cache: 'no-store', credentials: 'omit' })
  } catch (error) {
    if (options.signal?.aborted) throw error
    throw problem('The server does not answer.')
  }
  const date = Date.parse(response.headers.get('Date') ?? '')
  // The header has whole seconds: a smaller difference says nothing.
  if (date) state.skew = Math.abs(date - Date.now()) > 2000 ? date - Date.now() : 0
  if (response.ok) return response
  const { detail = response.statusText } = await response.json().catch(() => ({}))
  throw problem(detail, response.status)
}

/** Gets a JSON document. */
export const get = async (where, signal) => (await send(where, { signal })).json()

/** Gets a document, or null where the server has none. */
export const getIf = (where, signal) =>
  get(where, signal).catch((error) => {
    if (error.status !== 404) throw error
    return null
  })

/** How long what is loaded seldom is good for, in milliseconds, and how much of it is kept. */
const FRESH = 15_000
const KEPT_SELDOM = 8
/** @type {Map<string, { at: number, got: any }>} */
const seldom = new Map()

/** The same of a document that is large or changes slowly. */
export async function getSeldom(where, signal) {
  const found = seldom.get(where)
  if (found && Date.now() - found.at < FRESH) return found.got
  if (seldom.size > KEPT_SELDOM) seldom.clear()
  const got = await getIf(where, signal)
  seldom.set(where, { at: Date.now(), got })
  return got
}

/** Sends a document, or a text that is one already. */
export async function post(where, document, method = 'POST') {
  const body = typeof document === 'string' ? document : JSON.stringify(document)
  return (await send(where, { method, body, headers: { 'Content-Type': 'application/json' } })).json()
}

export const remove = async (where) => (await send(where, { method: 'DELETE' })).json()

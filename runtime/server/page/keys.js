// @ts-check
// The keyboard: every page and every row can be reached without a pointer.
import { refresh, setLive, showNewer } from './live.js'
import { to } from './route.js'
import { isOperator, mayOpen, state } from './state.js'
import { nextTheme } from './theme.js'

/** The pages that have a link, in groups, and the key after `g` of each. */
const LINKS = {
  Jobs: { Overview: 'o', Topics: 't', Find: 'f', Running: 'r', Dead: 'd', Bulk: 'u', Schedules: 's' },
  Tenant: { Handlers: 'h', Events: 'e', Bill: 'b', Tokens: 'k', Audit: 'a' },
  Server: { Workers: 'w', Tenants: 'n', Help: '?' },
}

/** Those that the token may use, with their groups and addresses. */
export function links() {
  const all = Object.entries(LINKS).flatMap(([group, pages]) => Object.entries(pages).map(([words, key]) => ({ group, words, key, page: words.toLowerCase() })))
  return all
    .filter(({ page, group }) => mayOpen(page) && (group !== 'Server' || page === 'help' || isOperator()))
    .map((link) => ({ ...link, href: link.group === 'Server' ? to(link.page) : to('t', tenantNow(), ...(link.key === 'o' ? [] : [link.page])) }))
}

/** Keys and what they do, for the help page. */
export const KEYS = [
  ...Object.values(LINKS).flatMap(Object.entries).map(([words, key]) => [`g ${key}`, words]),
  ['/', 'Search for a topic or a job'],
  ['j k', 'Next and previous row'],
  ['Enter', 'Open the row'],
  ['x', 'Select the row'],
  ['r', 'Load again, and show new rows'],
  ['p', 'Pause and resume the loading'],
  ['c', 'Change between light and dark'],
  ['?', 'This help'],
  ['Esc', 'Close, leave a field, or go up'],
]

/** The tenant of this place, else of the one before, else the token's own, else `default`. Before `/v1/me` has answered it may be another one. */
export const tenantNow = () => state.place?.params.tenant ?? state.tenant ?? state.me?.tenant ?? 'default'

/** Whether `g` was pressed just before. */
let going = false

/** @type {Record<string, () => void>} */
const ACTIONS = {
  '/': () => document.getElementById('search')?.focus(),
  '?': () => (location.hash = to('help')),
  j: () => step(1),
  k: () => step(-1),
  x: () => /** @type {HTMLElement | undefined | null} */ (document.activeElement?.closest('tr')?.querySelector('[type=checkbox]'))?.click(),
  r: () => (state.newer ? showNewer() : refresh()),
  p: () => setLive(!state.live),
  c: nextTheme,
  Escape: up,
}

/** Moves to the first link of another row. */
function step(by) {
  const links = [...document.querySelectorAll('main tbody tr')].flatMap((row) => row.querySelector('a') ?? [])
  const here = links.findIndex((link) => link.closest('tr')?.contains(document.activeElement))
  const next = here < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, here + by))
  links[next]?.focus()
}

/** One level up in the address: from a job's list to its topic, and so on. */
function up() {
  const parts = location.hash.split('?')[0].split('/')
  if (parts.length > 3) location.hash = parts.slice(0, parts[3] === 'jobs' ? 3 : -1).join('/')
}

export function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || state.dialog) return
  const field = event.target.closest('input, textarea, select')
  if (field) {
    if (event.key === 'Escape') field.blur()
    return
  }
  const goes = going
  going = event.key === 'g' && !goes
  const place = goes && links().find(({ key }) => key === event.key)?.href
  if (place) location.hash = place
  else if (!goes && ACTIONS[event.key]) ACTIONS[event.key]()
  else return
  event.preventDefault()
}

// @ts-check
// Loads what the place shows, and again every two seconds while the page can be seen.
import { pages } from './pages/all.js'
import { draw, mayOpen, state } from './state.js'

const EVERY = 2000
/** After a failure the page asks less and less often. */
const SLOWEST = 30_000

/** @type {AbortController} */
let visit = new AbortController()
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer
let failures = 0

/** Begins at a place: what was loaded for the one before is dropped, unless it is `same` but for its query. */
export function arrive(same = false) {
  visit.abort()
  visit = new AbortController()
  Object.assign(state, { data: same ? state.data : null, newer: null, problem: null })
  state.chosen.clear()
  failures = 0
  const page = pageOf(state.place)
  if (state.place) page?.arrive?.(state.place, visit.signal)
  return load(false)
}

/** The page of a place, unless it is known that the token does not allow it. */
const pageOf = (place) => (place && (!state.me || mayOpen(place.page)) ? pages[place.page] : undefined)

/** Loads now, and shows what comes. */
export const refresh = () => load(false)

/** Shows what was held back. */
export function showNewer() {
  Object.assign(state, { data: state.newer ?? state.data, newer: null })
  draw()
}

async function load(unasked) {
  clearTimeout(timer)
  const { place } = state
  const { signal } = visit
  const page = pageOf(place)
  if (!place || !page?.load) return draw()
  try {
    const data = await page.load(place, signal)
    if (signal.aborted) return
    accept(data, unasked && movesRows(page, data))
  } catch (error) {
    if (signal.aborted) return
    refuse(error)
  }
  draw()
  if (page.once?.(place)) return
  timer = setTimeout(again, Math.min(SLOWEST, EVERY * 2 ** failures))
}

function accept(data, hold = false) {
  failures = 0
  Object.assign(state, hold ? { newer: data } : { data, newer: null })
  Object.assign(state, { problem: null, loadedAt: Date.now() })
}

function refuse(error) {
  failures = Math.min(failures + 1, 4)
  if (error.status === 401) state.login = error.message
  state.problem = error
}

/** Rows do not move while the pointer is on one of them, or the keyboard. */
function movesRows(page, data) {
  if (!page.rows || !state.data) return false
  const same = page.rows(data).join() === page.rows(state.data).join()
  return !same && !!document.querySelector('tbody:hover, tbody :focus')
}

function again() {
  if (state.dialog) timer = setTimeout(again, EVERY)
  else if (state.live && !document.hidden) load(true)
}

document.addEventListener('visibilitychange', () => {
  if (!document.hidden && state.live) load(true)
})

/** Asks again by itself, or not. */
export function setLive(live) {
  state.live = live
  if (live) load(true)
  draw()
}

// @ts-check
// What the page knows, and when it is drawn.

/** One object for all of it. Who changes it calls `draw`. */
export const state = {
  /** Which server this is: `GET /v1`. @type {any} */
  about: null,
  /** What the token allows: `GET /v1/me`. @type {any} */
  me: null,
  /** The names of the tenants that the token may see. @type {string[]} */
  tenants: [],
  /** The tenant that was looked at last, by the address. @type {string | null} */
  tenant: null,
  /** Whether a narrow screen shows the links. */
  menu: false,
  /** The place that the address names. @type {import('./route.js').Place | null} */
  place: null,
  /** What the place's page has loaded. @type {any} */
  data: null,
  /** What was loaded since and is held back, because rows would move. @type {any} */
  newer: null,
  /** Why nothing was loaded. @type {any} */
  problem: null,
  /** When the data was loaded, by this machine's clock. */
  loadedAt: 0,
  /** Whether the page asks again by itself. */
  live: true,
  /** The last thing that was said about an action. @type {{ text: string, bad: boolean, at: number } | null} */
  notice: null,
  /** The open question. @type {any} */
  dialog: null,
  /** The rows that are selected: the ids of their jobs. @type {Set<string>} */
  chosen: new Set(),
  /** Why a token is asked for. @type {string | null} */
  login: null,
  /** How far the server's clock is ahead of this machine's, in milliseconds. */
  skew: 0,
}

let paint = () => {}
let drawing = false

export function onDraw(how) {
  paint = how
}

/** Draws once, before the browser paints. A hidden page is drawn when it is seen again. */
export function draw() {
  if (drawing) return
  drawing = true
  requestAnimationFrame(() => {
    drawing = false
    paint()
  })
}

/** The server's time, in milliseconds since 1970. */
export const now = () => Date.now() + state.skew

/** Says something to the person, also by the screen reader. */
export function say(text, bad = false) {
  state.notice = { text, bad, at: Date.now() }
  draw()
}

/** Whether the token allows this in the tenant that is looked at. The server checks each request anyway. */
export const may = (scope) => !!state.me?.scopes.includes(scope)

/** The scopes of pages for which it is not enough that the token reads. @type {Record<string, string | null>} */
const NEEDED = { push: 'push', tokens: 'admin', audit: 'admin', help: null }

/** The scope without which a page shows nothing, or null. @param {string} page */
export const scopeOf = (page) => (page in NEEDED ? NEEDED[page] : 'read')

/** Whether the token allows what a page shows. @param {string} page */
export const mayOpen = (page) => scopeOf(page) === null || may(scopeOf(page))

/** Whether the token is for all tenants. */
export const isOperator = () => !!state.me && state.me.tenant === null

// @ts-check
// Numbers, times and sizes, for people.

const NUMBER = new Intl.NumberFormat('en')
/** In milliseconds. */
export const DAY = 86_400_000

const UNITS = /** @type {const} */ ([
  ['d', DAY],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1000],
])

/** The day of a point in time, UTC. */
export const dayOf = (at) => new Date(at).toISOString().slice(0, 10)

export const number = (value) => NUMBER.format(value)

/** A number per second: few digits. */
export const rate = (value) => (value >= 10 || value === 0 ? number(Math.round(value)) : value.toFixed(value < 1 ? 2 : 1))

/** A span of time in its two largest units, such as `4m12s`, as commands write it. Never negative: clocks differ. */
export function span(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))}ms`
  if (ms < 10_000) return `${Number((ms / 1000).toFixed(1))}s`
  const first = UNITS.findIndex(([, size]) => ms >= size)
  const [unit, size] = UNITS[first]
  const next = UNITS[first + 1]
  const rest = next ? Math.floor((ms % size) / next[1]) : 0
  return Math.floor(ms / size) + unit + (rest ? rest + next[0] : '')
}

/** How long ago, or in how long. */
export function relative(at, now) {
  const ahead = at - now
  if (Math.abs(ahead) < 1000) return 'now'
  return ahead > 0 ? `in ${span(ahead)}` : `${span(-ahead)} ago`
}

/** The whole point in time, such as `2026-11-27 09:02:11 CET`: in this machine's time zone, or in another that the browser knows. */
export function absolute(at, timeZone) {
  try {
    return new Date(at).toLocaleString('sv', { timeZone, dateStyle: 'short', timeStyle: 'long' })
  } catch {
    return absolute(at)
  }
}

/** A text without its middle, where it is long: both ends of a name say what it is. */
export const cut = (text, most = 36) => (text?.length > most ? `${text.slice(0, most * 0.6)}…${text.slice(1 - most * 0.4)}` : text)

/** A value in the largest of these units, each so many times the one before. */
function scaled(value, base, units) {
  const step = Math.min(units.length - 1, Math.floor(Math.log(Math.max(1, value)) / Math.log(base) + 1e-9))
  return `${Number((value / base ** step).toPrecision(3))} ${units[step]}`.trim()
}

export const size = (count) => scaled(count, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB'])

/** A large count in short, such as `2 G`. */
export const short = (count) => scaled(count, 1000, ['', 'k', 'M', 'G', 'T'])

/** Members of an answer, and those within them, as pairs of words; the end of a name says in what unit its value is. */
export const facts = (of) =>
  Object.entries(of).flatMap(([name, value]) => value?.constructor === Object ? facts(value) : [[
    name.replace(/_(ms|bytes)$/, '').replaceAll('_', ' '),
    typeof value !== 'number' ? value : name.endsWith('_ms') ? span(value) : name.endsWith('_bytes') ? size(value) : name.startsWith('fuel') ? short(value) : number(value),
  ]])

/** `1 job`, `2 jobs`. */
export const counted = (count, noun) => `${number(count)} ${noun}${count === 1 ? '' : 's'}`

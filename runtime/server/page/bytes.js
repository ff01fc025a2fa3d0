// @ts-check
// Bytes as people can read them: JSON, text, or hexadecimal digits.

/** The most characters of a text, and bytes of a dump, that are shown. */
export const SHOWN = 32 << 10
const DUMPED = 2 << 10
/** Deeper levels of JSON are not moved further to the right. */
const DEEPEST = 40

export const decoded = (base64) => Uint8Array.from(atob(base64), (char) => char.charCodeAt(0))

/** The bytes of a payload, which has `text` if they are one. */
export const bytesOf = ({ text, base64 }) => (text === undefined ? decoded(base64) : new TextEncoder().encode(text))

/** The bytes as a text, or null if they are none. */
export function asText(bytes) {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
    return /[\0-\x08\x0e-\x1a\x1c-\x1f]/.test(text) ? null : text
  } catch {
    return null
  }
}

/** A token of JSON with the characters that it names by their codes, where they can be seen and mean nothing to JSON. */
const legible = (token) =>
  token.replace(/\\u(d[89ab]..)\\u(d[c-f]..)|\\u(....)|\\./gi, (all, high, low, code) => {
    const char = String.fromCharCode(...[high, low, code].filter(Boolean).map((digits) => parseInt(digits, 16)))
    return /^[^"\\\p{C}\p{Z}]$/u.test(char) ? char : all
  })

/**
 * JSON with a line for each member, or null if the text is no JSON. Numbers stay as they are written, so large ones keep all their digits.
 */
export function asJson(text) {
  try {
    JSON.parse(text)
  } catch {
    return null
  }
  let out = ''
  let depth = 0
  let before = ''
  const line = () => '\n' + '  '.repeat(Math.min(depth, DEEPEST))
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\]:,]|[^\s{}[\]:,"]+/g)) {
    const closes = token === '}' || token === ']'
    const opened = before === '{' || before === '['
    if (closes) depth -= 1
    if ((closes && !opened) || (opened && !closes) || before === ',') out += line()
    out += token === ':' ? ': ' : legible(token)
    if (token === '{' || token === '[') depth += 1
    before = token
  }
  return out
}

/** A dump: offset, hexadecimal digits, characters. */
export function asHex(bytes) {
  const lines = []
  for (let at = 0; at < Math.min(bytes.length, DUMPED); at += 16) {
    const part = Array.from(bytes.subarray(at, at + 16))
    const digits = part.map((byte) => byte.toString(16).padStart(2, '0')).join(' ')
    const chars = part.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : '.')).join('')
    lines.push(`${at.toString(16).padStart(6, '0')}  ${digits.padEnd(47)}  ${chars}`)
  }
  if (bytes.length > DUMPED) lines.push(`… and ${bytes.length - DUMPED} more bytes`)
  return lines.join('\n')
}

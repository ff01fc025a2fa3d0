// @ts-check
// Server-sent events, read with `fetch`: a browser's own reader of events cannot send a token.
import { send } from './api.js'

/** The longest line of an event that is kept, in characters. */
const LONGEST = 1 << 20

/** Calls `take` with the data of each event, until the stream or `signal` ends it. */
export async function follow(where, signal, on) {
  const response = await send(where, { signal, headers: { Accept: 'text/event-stream' } })
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
  if (!reader) return
  on.opened()
  let rest = ''
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    const lines = (rest + value).split('\n')
    rest = lines.pop() ?? ''
    if (rest.length > LONGEST) rest = ''
    for (const line of lines) {
      if (line.startsWith('data:')) on.take(JSON.parse(line.slice(5)))
    }
  }
}

// @ts-check
// Icons of 16 by 16, each one path. They stand beside a word, so a screen reader skips them.
import { html } from './html.js'

/** @type {Record<string, string>} */
const PATHS = {
  ready: 'M4 3v10l9-5z',
  delayed: 'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2ZM8 4v4l3 2',
  waiting: 'M4 2.5h8M4 13.5h8M5 3c0 5 6 5 6 10M11 3c0 5-6 5-6 10',
  running: 'M13 8a5 5 0 1 1-2-4M13 2v3h-3',
  dead: 'M4 4l8 8M12 4l-8 8',
  finished: 'M3 8.5 6.5 12 13 4.5',
  paused: 'M5.5 3v10M10.5 3v10',
  warn: 'M8 2 1.5 13.5h13zM8 6.5v3.5M8 11.6v.6',
  mill: 'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2ZM8 2v12M2 8h12',
  pushed: 'M8 13V3M4 7l4-4 4 4',
  alarm: 'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2ZM8 4.5v4M8 10.8v.4',
}

/** What has the icon of another; anything else has that of what is finished. @type {Record<string, string>} */
const LIKE = {
  bad: 'dead', failed: 'dead', expired: 'dead', cancelled: 'dead', refused: 'dead', live: 'ready', missed: 'warn', unknown: 'warn', gone: 'warn', retried: 'warn',
  overlap: 'paused', 'tenant-full': 'paused', snoozed: 'delayed', released: 'delayed', started: 'running', respawned: 'pushed', resumed: 'ready',
}

export const Icon = ({ name: given }) => {
  const name = LIKE[given] ?? (PATHS[given] ? given : 'finished')
  return html`
  <svg class=${`icon ${name}`} viewBox="0 0 16 16" aria-hidden="true"><path d=${PATHS[name]} /></svg>`
}

// @ts-check
// Icons of 16 by 16, each one path. They stand beside a word, so a screen reader skips them.
import { html } from './html.js'

/** @type {Record<string, string>} */
const PATHS = {
  ready: 'M4 3v10l9-5z',
  delayed: 'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2Zm0 2v4l3 2',
  running: 'M13 8a5 5 0 1 1-2-4M13 2v3h-3',
  dead: 'M4 4l8 8M12 4l-8 8',
  finished: 'M3 8.5 6.5 12 13 4.5',
  paused: 'M5.5 3v10M10.5 3v10',
  warn: 'M8 2 1.5 13.5h13zM8 6.5v3.5M8 11.6v.6',
  bad: 'M5.2 1.5h5.6l3.7 3.7v5.6l-3.7 3.7H5.2l-3.7-3.7V5.2zM8 4.5v4.2M8 10.7v.8',
  good: 'M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13ZM5 8.2 7.2 10.4 11 6',
  mill: 'M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13ZM8 6.4a1.6 1.6 0 1 0 0 3.2 1.6 1.6 0 0 0 0-3.2ZM8 1.5v4.9M8 9.6v4.9M1.5 8h4.9M9.6 8h4.9',
  pushed: 'M8 13V3M4 7l4-4 4 4',
}

export const Icon = ({ name }) => html`
  <svg class=${`icon ${name}`} viewBox="0 0 16 16" aria-hidden="true"><path d=${PATHS[name] ?? ''} /></svg>`

/** What the web's platform has and the engine lacks. The build takes from here the names that the handler or its packages mention. */
export { crypto, crypto as 'globalThis.crypto' } from './crypto.js';
export { Event, EventTarget, AbortController, AbortSignal } from './events.js';
export { Headers, Request, Response, fetch, fetch as 'globalThis.fetch' } from './fetch.js';
export { structuredClone, structuredClone as 'globalThis.structuredClone' } from './clone.js';
export { URL, URL as 'globalThis.URL', URLSearchParams } from './url.js';

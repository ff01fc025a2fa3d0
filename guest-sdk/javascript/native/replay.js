/**
 * What differs on plain Node.js when a recorded attempt is done again, for `gristmill replay --native`: times and answers to requests come from the
 * recording, and nothing is sent. What the handler asks by way of `index.js`, `host.js` asks the recording, too.
 */
import dgram from 'node:dgram';
import { readFileSync } from 'node:fs';
import inspector from 'node:inspector';
import net from 'node:net';
import { recordedTime, send } from './host.js';
import { AbortController, AbortSignal } from '../web/events.js';
import * as web from '../web/fetch.js';
import { URL, URLSearchParams } from '../web/url.js';
import { Job, attempt } from '../index.js';

const { engine = 'quickjs' } = JSON.parse(readFileSync('package.json', 'utf8'));

/** Before the author's modules are imported. */
export function begin() {
  replaceClock();
  // What the build adds for QuickJS, so that requests are the same to the byte; StarlingMonkey brings about what Node.js has.
  const { Headers, Request, Response, fetch } = web;
  if (engine === 'quickjs') {
    Object.assign(globalThis, { AbortController, AbortSignal, Headers, Request, Response, URL, URLSearchParams, fetch });
    for (const name of ['setTimeout', 'setInterval', 'setImmediate']) globalThis[name] = timed(globalThis[name]);
  } else {
    globalThis.fetch = recordedFetch;
  }
  net.Socket.prototype.connect = refuse;
  dgram.Socket.prototype.send = refuse;
}

/** Calls this function as `handle` of `index.js` has it called, but waits for a debugger, and stops before its first line. @param {any} work */
export const held = (work) => (/** @type {any} */ given) => {
  waitForDebugger();
  return attempt((job) => {
    debugger; // Step into the call: the handler's first line follows.
    return work(job);
  }, new Job(given));
};

function waitForDebugger() {
  if (!inspector.url()) inspector.open();
  process.stderr.write(`attach a debugger: \`node inspect ${new URL(inspector.url() ?? '').host}\`, an editor, or Chrome at chrome://inspect\n`);
  inspector.waitForDebugger();
}

/** @returns {never} */
function refuse() {
  throw new Error('a replay sends nothing: only the answers to `fetch` are in the recording');
}

function replaceClock() {
  const Machine = Date;
  const { now } = Machine;
  const time = () => recordedTime() ?? now.call(Machine);
  Machine.now = time;
  globalThis.Date = new Proxy(Machine, {
    apply: () => new Machine(time()).toString(),
    construct: (target, given, made) => Reflect.construct(target, given.length === 0 ? [time()] : given, made),
  });
  Machine.prototype.constructor = Date;
}

/** A timer that asks for the time when `web/loop.js` does: as it begins, and as it runs. @param {Function} begin */
function timed(begin) {
  return (/** @type {Function} */ callback, /** @type {unknown[]} */ ...given) => {
    recordedTime();
    return begin((/** @type {unknown[]} */ ...passed) => {
      recordedTime();
      callback(...passed);
    }, ...given);
  };
}

/** @param {string | URL | globalThis.Request} input @param {RequestInit} [init] */
async function recordedFetch(input, init) {
  const request = new Request(/** @type {string} */ (input), init);
  request.signal.throwIfAborted();
  const body = request.body && new Uint8Array(await request.arrayBuffer());
  try {
    const answer = send({ method: request.method, url: request.url.split('#')[0], headers: [...request.headers], body, timeout: null, redirects: 0 });
    const { status, headers } = answer;
    return new Response([101, 204, 205, 304].includes(status) ? null : answer.body, { status, headers });
  } catch (cause) {
    throw cause.payload ? new TypeError(`fetch failed: ${cause.payload.val || cause.payload.tag}`, { cause }) : cause;
  }
}

/**
 * The runner's side of `index.js` on plain Node.js. Runner and process talk over two pipes, one JSON document a line: the runner sends a job, and what
 * the process says until the end of that is a log line, or a question, which is answered with one line. Under `gristmill replay --native` it is the recording
 * of an attempt that answers.
 */
import { randomBytes } from 'node:crypto';
import { read, readSync, writeSync } from 'node:fs';
import { promisify } from 'node:util';
import { Reject, Retry, Snooze, Failure, describe } from '../index.js';

/** @import { Level, WireJob, WireNewJob } from 'gristmill-guest' */

const [FROM_RUNNER, TO_RUNNER] = [3, 4];
/** Files below it are the author's. */
const PROJECT = `${process.cwd()}/`;

/** What the runner said of the job that runs. @type {any} */
let given = null;
/** The store's clock minus this machine's, in milliseconds. */
let clockOffset = 0;
/** The machine's, in whatever `replay.js` has others find. */
const machineTime = Date.now;
/** When a debugger takes over in a replay: `off`, `terminal` or `first`. Undefined: this is none. */
export const replays = process.env.GRISTMILL_REPLAY;

/** @param {(job: WireJob) => any} attempt @param {(error: unknown) => any} failed @param {unknown} work which `attempt` calls */
export const exported = (attempt, failed, work) => ({ handle: attempt, failed, work });
/** @param {string} name */
export const get = (name) => (replays && given ? ask('config', { name }, plain) : given?.config[name]);
/** @param {string} name */
export const secret = (name) => bytes(replays && given ? ask('secret', { name }, plain) : given?.secrets[name]) ?? undefined;
export const now = () => (replays ? Date.now() : machineTime() + clockOffset);
/** Nothing counts it here. */
export const fuelRemaining = () => Number.MAX_SAFE_INTEGER;
export const isCancelled = () => ask('is-cancelled', {}, plain);
/** @param {Level} level */
export const enabled = (level) => (replays && given ? ask('enabled', { level }, plain) : true);
/** @param {number} basisPoints @param {string | null} note */
export const progress = (basisPoints, note) => write('info', 'progress', note ?? '', [['basis-points', String(basisPoints)]]);
/** @param {Level} level @param {string} message @param {[string, string][]} fields */
export const emit = (level, message, fields) => write(level, 'log', message, fields);
export const getState = () => bytes(ask('state', {}, ofState));
/** @param {Uint8Array | null} value */
export const setState = (value) => ask('set-state', { value: value && payload(value) }, ofState);

/** The time of day in a replay, in milliseconds; null between jobs. @returns {number | null} */
export function recordedTime() {
  if (!given) return null;
  const [seconds, nanoseconds] = ask('time', {}, plain);
  return seconds * 1000 + Math.floor(nanoseconds / 1e6);
}

/**
 * The recorded answer to a request, in a replay. Throws as the contract's function does.
 *
 * @param {{ method: string, url: string, headers: [string, string][], body: Uint8Array | null, timeout: number | null, redirects: number }} request
 */
export function send({ body, ...request }) {
  const failed = (/** @type {string} */ tag, /** @type {string} */ val) => Object.assign(new Error(val || tag), { payload: { tag, val } });
  const answer = ask('http', { request: { ...request, body: body && payload(body), is_by_library: false } }, failed);
  return { ...answer, body: bytes(answer.body) };
}

/** @param {Uint8Array} state */
export function checkpoint(state) {
  const failed = (/** @type {string} */ code, /** @type {string} */ message) =>
    new (code === 'too-large' ? Reject : Retry)('checkpoint-failed', message);
  ask('checkpoint', { state: payload(state) }, failed);
}

/** @param {WireNewJob} job @returns {string} */
export function enqueue({ links, ...job }) {
  const spec = {
    id: newId(),
    tenant: given?.job.spec.tenant,
    topic: job.topic,
    body: payload(job.body.data, job.body.contentType),
    metadata: job.metadata,
    key: job.key,
    priority: job.priority,
    unique: job.unique === null ? null : { value: job.unique, window_ms: job.uniqueWindow },
    after: links?.after ?? [],
    after_failed: links?.afterFailed ?? 'dead',
    batch: links?.batch ?? null,
    open: links?.open ?? false,
  };
  const due = job.notBefore === null ? 'now' : { at_ms: job.notBefore };
  const failed = (/** @type {string} */ code, /** @type {string} */ message) =>
    new (code === 'unknown-topic' ? Retry : Reject)('enqueue-failed', message);
  return ask('enqueue', { job: { spec, due } }, failed);
}

/** The stack of an error, in lines of the sources and without what is not the author's, and the innermost place. @param {Error} error */
export function traced({ stack = '' }) {
  const frames = stack.split('\n').filter((line) => /^ +at /.test(line)).map((line) => line.replace(/^ +at /, ''));
  const own = frames.map(sourced).filter((frame) => !/node:|gristmill-guest\//.test(frame));
  const places = own.map((frame) => frame.match(/([^\s(]+:\d+)\)?$/)?.[1] ?? '');
  return { stack: own.map((frame) => `    at ${frame}`).join('\n'), place: places.find((place) => place && !/^[./]|node_modules/.test(place)) ?? '' };
}

/** A frame with the place in it as `handler.ts:7`. @param {string} frame */
function sourced(frame) {
  return frame.replace(/(?:file:\/\/)?(\/[^()]+):(\d+):\d+(?=\)?$)/, (_all, path, line) => `${path.startsWith(PROJECT) ? path.slice(PROJECT.length) : path}:${line}`);
}

/** Says that the handler can be called. */
export function loaded() {
  for (const level of /** @type {Level[]} */ (['trace', 'debug', 'info', 'warn', 'error'])) console[level] = printer(level);
  console.log = printer('info');
  const { fetch } = globalThis;
  if (!replays) globalThis.fetch = (...request) => fetch(...request).catch(unanswered);
  say('loaded', replays ? { replays: true } : undefined);
}

/** The runner's next job; null when it has no more. @returns {Promise<WireJob | null>} */
export async function next() {
  let line;
  while ((line = received.line()) === null) {
    const { bytesRead } = await readLater(FROM_RUNNER, { buffer: received.room });
    if (!received.add(bytesRead)) return null;
  }
  given = JSON.parse(line);
  clockOffset = given.now_ms - machineTime();
  const { spec, enqueued_at_ms: enqueuedAt, due_at_ms: dueAt } = given.job;
  return {
    ...{ id: spec.id, tenant: spec.tenant, topic: spec.topic, metadata: spec.metadata, key: spec.key ?? null },
    body: { data: bytes(spec.body), contentType: spec.body.content_type },
    ...{ attempt: given.attempt, maxAttempts: given.max_attempts, enqueuedAt, dueAt, deadline: given.deadline_ms },
    checkpoint: bytes(given.checkpoint),
  };
}

/** Says how the attempt ended. @param {any} ending */
export function end(ending) {
  given = null;
  if (ending instanceof Snooze) return say('snooze', { ms: ending.wait });
  if (!(ending instanceof Failure)) return say('complete', { result: ending && payload(ending.data, ending.contentType) });
  const { context } = ending;
  const detail = { code: String(ending.code), message: ending.message, context: context && payload(context.data, context.contentType) };
  if (ending instanceof Reject) return say('reject', { detail });
  say('retry', { detail, after_ms: ending instanceof Retry ? ending.after : null });
}

/** @param {string} question @param {object} what @param {(code: string, message: string) => Error} failed @returns {any} */
function ask(question, what, failed) {
  if (!given) throw new Error('only while a job runs can the runner be asked');
  say(question, what);
  let line;
  while ((line = received.line()) === null) {
    // The runner is gone, and whoever waits for this job knows.
    if (!received.add(readSync(FROM_RUNNER, received.room))) process.exit(1);
  }
  const answer = JSON.parse(line);
  if (answer.code === 'asks-else') throw Object.assign(new Error(answer.message), { name: 'AsksElse' });
  if (!('ok' in answer)) throw failed(answer.code, answer.message);
  return answer.ok;
}

/** @param {string} what @param {object} [more] */
function say(what, more) {
  // Half a surrogate pair is no text to anybody but JavaScript.
  const text = JSON.stringify({ say: what, ...more }, (_key, value) => (typeof value === 'string' ? value.toWellFormed() : value));
  const line = Buffer.from(`${text}\n`);
  for (let at = 0; at < line.length; ) at += writeSync(TO_RUNNER, line, at);
}

/** What came from the runner and was not read. */
const received = {
  room: Buffer.alloc(1 << 16),
  /** @type {Buffer[]} */ parts: [],
  /** Takes so many bytes from `room`. @param {number} count */
  add(count) {
    this.parts.push(Buffer.from(this.room.subarray(0, count)));
    return count > 0;
  },
  /** A whole line, if one has come: never more than one comes before the next word of this process. */
  line() {
    if (this.parts.at(-1)?.at(-1) !== 10) return null;
    const line = Buffer.concat(this.parts).toString();
    this.parts = [];
    return line;
  },
};
const readLater = promisify(read);

/** @param {string} level @param {string} source @param {string} message @param {[string, string][]} fields */
function write(level, source, message, fields) {
  // What goes on after its job is printed.
  if (given) say('log', { level, source, message, fields });
  else process.stderr.write(`${[message, ...fields.map(([name, value]) => `${name}=${value}`)].join(' ')}\n`);
}

/** @param {Level} level @returns {(...values: unknown[]) => void} */
const printer = (level) => (...values) => emit(level, values.map(describe).join(' '), []);

/** @param {string} _code @param {string} message */
const plain = (_code, message) => new Error(message);

/** @param {string} code @param {string} message */
const ofState = (code, message) => (code === 'state-unavailable' ? new Retry(code, `the state cannot be read now: ${message}`) : new Reject(code, message));

/** Gives the error of a request its reason, which Node.js keeps in the cause, and the code that it has in a component. @param {any} error @returns {never} */
function unanswered(error) {
  const { cause } = error;
  if (!cause) throw error;
  const tag = cause.code === 'ERR_INVALID_URL' ? 'invalid' : /TIMEOUT/.test(cause.code) ? 'timeout' : 'unreachable';
  if (tag !== 'invalid') error.message += `: ${cause.message}`;
  throw Object.assign(error, { payload: { tag, val: error.message } });
}

/** @param {Uint8Array} data @param {string | null} [contentType] */
function payload(data, contentType = null) {
  return { base64: Buffer.from(data).toString('base64'), content_type: contentType };
}

/** @param {{ base64: string } | { text: string } | null | undefined} payload @returns {any} */
function bytes(payload) {
  if (!payload) return null;
  return new Uint8Array('text' in payload ? Buffer.from(payload.text) : Buffer.from(payload.base64, 'base64'));
}

/** A ULID. */
function newId() {
  const number = (BigInt(machineTime() + clockOffset) << 80n) | BigInt(`0x${randomBytes(10).toString('hex')}`);
  return Array.from({ length: 26 }, (_each, at) => '0123456789ABCDEFGHJKMNPQRSTVWXYZ'[Number((number >> BigInt(5 * (25 - at))) & 31n)]).join('');
}

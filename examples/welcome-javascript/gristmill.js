/**
 * Write a handler as a JavaScript function: what the contract `wit/job.wit` offers, in JavaScript's own terms.
 *
 *     import { handle, log } from './gristmill.js';
 *
 *     export const handler = handle((job) => {
 *       log.info('greet', { attempt: job.attempt });
 *       return { hello: job.json().name };
 *     });
 *
 * In a component the calls go to the runner (`gristmill-host.js`), anywhere else to a fake (`gristmill-testing.js`).
 * Import this module before any package: it brings what the engine lacks.
 */
import * as host from '#host';

/** @typedef {'trace' | 'debug' | 'info' | 'warn' | 'error'} Level */
/** @typedef {undefined | null | string | Uint8Array | Payload | object} Result An object or an array is sent as JSON. */
/** @typedef {(job: Job) => Result | Snooze | Promise<Result | Snooze>} HandlerFunction It may be `async`. */

/** Ends the attempt: throw a {@link Retry} or a {@link Reject}. */
export class Failure extends Error {
  /**
   * @param {string} code stable and for machines, such as `upstream-timeout`
   * @param {string} message for people
   * @param {{ context?: Result }} [options] `context` is kept with the attempt
   */
  constructor(code, message, { context } = {}) {
    super(message);
    this.name = new.target.name;
    this.code = code;
    this.context = payload(context);
  }
}

/** Transient: the job is tried again, until its attempts are used up. */
export class Retry extends Failure {
  /**
   * @param {string} code
   * @param {string} message
   * @param {{ after?: number, context?: Result }} [options] `after`: milliseconds, instead of the topic's backoff
   */
  constructor(code, message, options = {}) {
    super(code, message, options);
    this.after = optional(options.after, (after) => millis('after', after));
  }
}

/** Permanent: the job is dead at once, and a person finds it with this code and message on it. */
export class Reject extends Failure {}

/** Bytes and the format that they are in; see {@link json}, {@link text} and {@link bytes}. */
export class Payload {
  /** @param {Uint8Array} data @param {string | null} [contentType] none means opaque bytes */
  constructor(data, contentType = null) {
    this.data = data;
    this.contentType = contentType;
  }
}

/** Any value as JSON. @param {unknown} value */
export function json(value) {
  const written = JSON.stringify(value);
  if (written === undefined) throw new TypeError(`there is no JSON for ${describe(value)}`);
  return new Payload(new TextEncoder().encode(written), 'application/json');
}

/** @param {string} value */
export function text(value) {
  return new Payload(new TextEncoder().encode(value), 'text/plain; charset=utf-8');
}

/** @param {Uint8Array} data @param {string} [contentType] */
export function bytes(data, contentType) {
  return new Payload(data, contentType);
}

/** What a result, a follow-up's body or a failure's context is sent as. @param {Result} value */
function payload(value) {
  if (value === undefined || value === null) return null;
  if (value instanceof Payload) return value;
  if (value instanceof Uint8Array) return bytes(value);
  if (typeof value === 'string') return text(value);
  if (typeof value.then === 'function') throw new TypeError('a promise is no payload: await it');
  if (typeof value === 'object') return json(value);
  throw new TypeError(`${describe(value)} is no payload: give text, bytes, an object, an array, or json(value)`);
}

/** Neither done nor failed. Made by {@link snooze}. */
export class Snooze {
  /** @param {number} wait */
  constructor(wait) {
    this.wait = millis('snooze', wait);
  }
}

/** Return this to run the job again after so many milliseconds, without using up an attempt. @param {number} wait */
export const snooze = (wait) => new Snooze(wait);

/** What there is to do. All times are milliseconds since the Unix epoch, by the store's clock. */
export class Job {
  /** @param {Record<string, any>} given as the contract has it */
  constructor({ body, ...given }) {
    /** @type {string} */ this.id = given.id;
    /** @type {string} */ this.tenant = given.tenant;
    /** @type {string} */ this.topic = given.topic;
    /** @type {Uint8Array} the body */ this.bytes = body.data;
    /** @type {string | null} */ this.contentType = body.contentType ?? null;
    /** @type {[string, string][]} headers in order; names may repeat */ this.metadata = given.metadata;
    /** @type {string | null} */ this.key = given.key;
    /** @type {number} 1 on the first try */ this.attempt = given.attempt;
    /** @type {number} */ this.maxAttempts = given.maxAttempts;
    /** @type {number} */ this.enqueuedAt = given.enqueuedAt;
    /** @type {number} */ this.dueAt = given.dueAt;
    /** @type {number} */ this.deadline = given.deadline;
    /** @type {Uint8Array | null} what an earlier attempt saved */ this.checkpoint = given.checkpoint;
  }

  /** The body as text; a body that is no UTF-8 rejects the job as `bad-payload`. */
  text() {
    try {
      return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(this.bytes);
    } catch {
      throw new Reject('bad-payload', 'the body is not UTF-8');
    }
  }

  /** The body as JSON; a body that is none rejects the job as `bad-payload`. @returns {any} */
  json() {
    const written = this.text();
    try {
      const surrogates = written.includes('\\ud') || written.includes('\\uD');
      return JSON.parse(written, surrogates ? wellFormed : undefined);
    } catch (error) {
      throw new Reject('bad-payload', `the body is not JSON: ${error.message}`);
    }
  }

  /** The first header of this name. @param {string} name @returns {string | undefined} */
  meta(name) {
    return this.metadata.find(([found]) => found === name)?.[1];
  }
}

/** Refuses half a surrogate pair, which is no text and cannot be sent on. @param {string} key @param {unknown} value */
function wellFormed(key, value) {
  if (!key.isWellFormed() || (typeof value === 'string' && !value.isWellFormed())) {
    throw new SyntaxError('half a surrogate pair in a string');
  }
  return value;
}

/** Makes this function the one that does the jobs: `export const handler = handle(…)`. @param {HandlerFunction} work */
export function handle(work) {
  if (typeof work !== 'function') throw new TypeError(`handle(${describe(work)}): give it the function that does the jobs`);
  return host.exported((job) => attempt(work, new Job(job)), failed);
}

/** @typedef {Payload | Snooze | Failure | null} Ending */

/**
 * One attempt: what `work` makes of `job`, or a promise of it.
 *
 * @param {HandlerFunction} work
 * @param {Job} job
 * @returns {Ending | Promise<Ending>}
 */
export function attempt(work, job) {
  const ended = (result) => (result instanceof Snooze ? result : payload(result));
  try {
    const result = work(job);
    return typeof result?.then === 'function' ? Promise.resolve(result).then(ended).catch(failed) : ended(result);
  } catch (error) {
    return failed(error);
  }
}

/**
 * What an error makes of the attempt: one that is no {@link Failure} is a retry, its stack logged and kept; a request that the
 * runner refused is a reject.
 *
 * @param {any} error @returns {Failure}
 */
function failed(error) {
  if (error instanceof Failure) return error;
  const refused = requestRefused(error?.payload ?? error?.cause?.payload);
  if (refused) return refused;
  if (!(error instanceof Error)) return new Retry('exception', describe(error));
  const { stack, place } = host.traced(error);
  log.error('uncaught exception', { stack: `${error}\n${stack}`.trim() });
  return new Retry('exception', place ? `${error} (${place})` : `${error}`, { context: stack.slice(0, STACK_MAX) });
}

/** Letters of a stack that are kept with the attempt. */
const STACK_MAX = 4000;

/** What the runner says of a request over HTTP that another try would not change. */
const REFUSED = {
  'denied': (what) => `the request is not granted: ${what}`,
  'invalid': (problem) => `the request cannot be sent: ${problem}`,
  'too-large': (limit) => `the request or its answer is larger than ${limit} bytes`,
  'too-many': (limit) => `one attempt may send no more than ${limit} requests`,
};

/** @param {{ tag?: string, val?: unknown }} [refusal] */
function requestRefused({ tag, val } = {}) {
  return Object.hasOwn(REFUSED, tag ?? '') ? new Reject(`http-${tag}`, REFUSED[tag](val)) : undefined;
}

/**
 * Adds a job that becomes visible in the step that acknowledges this one, or not at all.
 *
 * @param {object} job
 * @param {string} job.topic
 * @param {Result} [job.body]
 * @param {unknown} [job.json] any value, instead of `body`
 * @param {number} [job.after] due so many milliseconds from now, by the store's clock
 * @param {number | Date} [job.at] due at this time
 * @param {string} [job.unique] at most one waiting or running job per topic and value
 * @param {number} [job.uniqueFor] milliseconds: at most one within this time, whatever becomes of it
 * @param {'high' | 'normal' | 'low'} [job.priority]
 * @param {string} [job.key] jobs of the topic with the same key run one at a time and in order
 * @param {Record<string, string> | [string, string][]} [job.metadata]
 * @param {string[]} [job.afterJobs] ids of jobs that have to end first, such as `job.id` or what an earlier `enqueue` returned
 * @param {'dead' | 'run'} [job.afterFailed] what becomes of it if one of those was not done: 'dead' unless it says otherwise
 * @param {string} [job.batch] id of a job that waits, and waits for this one, too
 * @param {boolean} [job.open] it waits until `gristmill job seal` or the HTTP API seals it, and all jobs that have it as their batch have ended
 * @returns {string} the id that the job will have
 * @throws {Reject} `enqueue-failed`: the runner refused it, and would again; the attempt may go on regardless
 * @throws {Retry} `enqueue-failed`: there is no such topic yet
 */
export function enqueue(job) {
  const { topic, body, json: value, after, at, unique, uniqueFor, priority = 'normal', key, metadata = [] } = job;
  if (!['high', 'normal', 'low'].includes(priority)) {
    throw new TypeError(`priority ${describe(priority)}: allowed are 'high', 'normal' and 'low'`);
  }
  const pairs = Array.isArray(metadata) ? metadata : Object.entries(metadata);
  const wire = {
    topic: String(topic),
    body: (value === undefined ? payload(body) : json(value)) ?? bytes(new Uint8Array()),
    metadata: pairs.map(([name, text]) => [String(name), String(text)]),
    key: optional(key, String),
    notBefore: after === undefined ? optional(at, (at) => millis('at', Number(at))) : now() + millis('after', after),
    unique: optional(unique, String),
    priority,
    uniqueWindow: optional(uniqueFor, (window) => millis('uniqueFor', window)),
    ...linked(job),
  };
  return host.enqueue(wire);
}

/** `links`, if a job has any. */
function linked({ afterJobs = [], afterFailed = 'dead', batch, open = false }) {
  if (!['dead', 'run'].includes(afterFailed)) {
    throw new TypeError(`afterFailed ${describe(afterFailed)}: allowed are 'dead' and 'run'`);
  }
  if (!Array.isArray(afterJobs)) throw new TypeError(`afterJobs ${describe(afterJobs)}: give an array of ids`);
  const links = { after: afterJobs.map(String), afterFailed, batch: optional(batch, String), open: Boolean(open) };
  return afterJobs.length > 0 || links.batch !== null || links.open ? { links } : {};
}

/** Log lines of the job; the runner adds topic, job and attempt. Values that are no text are written as JSON. */
export const log = {
  /** @param {string} message @param {Record<string, unknown>} [fields] */
  trace: (message, fields) => emit('trace', message, fields),
  /** @param {string} message @param {Record<string, unknown>} [fields] */
  debug: (message, fields) => emit('debug', message, fields),
  /** @param {string} message @param {Record<string, unknown>} [fields] */
  info: (message, fields) => emit('info', message, fields),
  /** @param {string} message @param {Record<string, unknown>} [fields] */
  warn: (message, fields) => emit('warn', message, fields),
  /** @param {string} message @param {Record<string, unknown>} [fields] */
  error: (message, fields) => emit('error', message, fields),
  /** Whether anybody keeps lines of this level. @param {Level} level @returns {boolean} */
  enabled: (level) => host.enabled(level),
};

/** @param {Level} level @param {string} message @param {Record<string, unknown>} [fields] */
function emit(level, message, fields = {}) {
  host.emit(level, String(message), Object.entries(fields).map(([name, value]) => [name, describe(value)]));
}

/** What the manifest grants this topic; undefined if it is missing or not granted. */
export const config = {
  /** @param {string} name @returns {string | undefined} */
  get: (name) => host.get(name) ?? undefined,
  /** @param {string} name @returns {Uint8Array | undefined} */
  secret: (name) => host.secret(name) ?? undefined,
};

/**
 * What the jobs of a key leave for each other, in a topic with `state = true`. Of the jobs of a key one runs at a time. What is set is
 * stored in the step that completes this job, or not at all; the last call counts. A {@link Reject} if the job has no key (`no-key`) or the
 * state is too large (`state-too-large`), a {@link Retry} if the store does not answer.
 */
export const state = {
  /** The state; undefined if there is none. After `set`, what that said. @returns {Uint8Array | undefined} */
  get: () => host.getState() ?? undefined,
  /** Has the state be this; undefined deletes it. @param {Uint8Array | string | undefined} value */
  set: (value) => host.setState(optional(value, (value) => (typeof value === 'string' ? new TextEncoder().encode(value) : value))),
  /** The state from JSON; undefined if there is none. @returns {any} */
  json() {
    const value = state.get();
    try {
      return value && JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(value));
    } catch (error) {
      throw new Reject('bad-state', `the state is not the expected JSON: ${error.message}`);
    }
  },
  /** Has the state be this value as JSON. @param {unknown} value */
  setJson: (value) => state.set(JSON.stringify(value)),
};

/** Milliseconds since the Unix epoch, by the store's clock. @returns {number} */
export const now = () => host.now();

/** Fuel left for this attempt. @returns {number} */
export const fuelRemaining = () => host.fuelRemaining();

/** True once the job was cancelled or the runner is ending: a long handler should ask, and stop. @returns {boolean} */
export const isCancelled = () => host.isCancelled();

/**
 * Saves durably where this job is; the next attempt finds it in `job.checkpoint`.
 *
 * @param {Uint8Array | string} state
 * @throws {Reject} `checkpoint-failed`: it is larger than the topic allows
 * @throws {Retry} `checkpoint-failed`: the store cannot take it now
 */
export function checkpoint(state) {
  host.checkpoint(typeof state === 'string' ? new TextEncoder().encode(state) : state);
}

/** For people who watch. @param {number} done from 0 to 1 @param {string} [note] */
export function progress(done, note) {
  host.progress(Math.round(Math.min(Math.max(done, 0), 1) * 10_000) || 0, optional(note, String));
}

/** @template T, U @param {T | undefined | null} value @param {(value: T) => U} change @returns {U | null} */
function optional(value, change) {
  return value === undefined || value === null ? null : change(value);
}

/** The contract counts whole milliseconds, and a value of another kind would trap. @param {string} name @param {number} value */
function millis(name, value) {
  if (typeof value !== 'number' || !(value >= 0 && value <= Number.MAX_SAFE_INTEGER)) {
    throw new TypeError(`${name}: ${describe(value)} is no number of milliseconds`);
  }
  return Math.trunc(value);
}

/** Text as it is, anything else as JSON if there is any. @param {unknown} value @returns {string} */
export function describe(value) {
  if (typeof value === 'string') return value;
  if (value instanceof Error) return String(value);
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return String(value);
  }
}

/**
 * Write a handler as a TypeScript function: what the contract `wit/job.wit` offers, in TypeScript's own terms.
 *
 *     import { handle, log } from './gristmill.ts';
 *
 *     export const handler = handle((job) => {
 *       const { name } = job.json() as { name: string };
 *       log.info('greet', { attempt: job.attempt });
 *       return { hello: name };
 *     });
 *
 * In a component the calls go to the runner (`gristmill-host.ts`), anywhere else to a fake (`gristmill-testing.ts`).
 * Import this module before any package: it brings what the engine lacks.
 */
import * as host from '#host';

export type Level = 'trace' | 'debug' | 'info' | 'warn' | 'error';
export type Priority = 'high' | 'normal' | 'low';
/** An object or an array is sent as JSON, text as `text/plain`. */
export type Result = undefined | null | string | Uint8Array | Payload | object;
/** It may be `async`. */
export type HandlerFunction = (job: Job) => Result | Snooze | void | Promise<Result | Snooze | void>;
/** What an attempt comes to. */
export type Ending = Payload | Snooze | Failure | null;

/** Ends the attempt: throw a {@link Retry} or a {@link Reject}. */
export abstract class Failure extends Error {
  /** Kept with the attempt. */
  readonly context: Payload | null;

  /** `code` is stable and for machines, such as `upstream-timeout`; `message` is for people. */
  constructor(readonly code: string, message: string, { context }: { context?: Result } = {}) {
    super(message);
    this.name = new.target.name;
    this.context = payload(context);
  }
}

/** Transient: the job is tried again, until its attempts are used up. */
export class Retry extends Failure {
  readonly after: number | null;

  /** `after` is in milliseconds, instead of the topic's backoff. */
  constructor(code: string, message: string, options: { after?: number; context?: Result } = {}) {
    super(code, message, options);
    this.after = optional(options.after, (after) => millis('after', after));
  }
}

/** Permanent: the job is dead at once, and a person finds it with this code and message on it. */
export class Reject extends Failure {}

/** Bytes and the format that they are in; see {@link json}, {@link text} and {@link bytes}. */
export class Payload {
  /** No content type means opaque bytes. */
  constructor(readonly data: Uint8Array, readonly contentType: string | null = null) {}
}

/** Any value as JSON. */
export function json(value: unknown): Payload {
  const written = JSON.stringify(value) as string | undefined;
  if (written === undefined) throw new TypeError(`there is no JSON for ${describe(value)}`);
  return new Payload(new TextEncoder().encode(written), 'application/json');
}

export function text(value: string): Payload {
  return new Payload(new TextEncoder().encode(value), 'text/plain; charset=utf-8');
}

export function bytes(data: Uint8Array, contentType?: string): Payload {
  return new Payload(data, contentType);
}

/** What a result, a follow-up's body or a failure's context is sent as. */
function payload(value: unknown): Payload | null {
  if (value === undefined || value === null) return null;
  if (value instanceof Payload) return value;
  if (value instanceof Uint8Array) return bytes(value);
  if (typeof value === 'string') return text(value);
  if (typeof (value as { then?: unknown }).then === 'function') {
    throw new TypeError('a promise is no result: nothing can be awaited inside a job, so handlers are not async');
  }
  if (typeof value === 'object') return json(value);
  throw new TypeError(`${describe(value)} is no payload: give text, bytes, an object, an array, or json(value)`);
}

/** Neither done nor failed. Made by {@link snooze}. */
export class Snooze {
  readonly wait: number;

  constructor(wait: number) {
    this.wait = millis('snooze', wait);
  }
}

/** Return this to run the job again after so many milliseconds, without using up an attempt. */
export const snooze = (wait: number): Snooze => new Snooze(wait);

/** A job as the contract has it. */
export interface WireJob {
  id: string;
  tenant: string;
  topic: string;
  body: { data: Uint8Array; contentType: string | null };
  metadata: [string, string][];
  key: string | null;
  attempt: number;
  maxAttempts: number;
  enqueuedAt: number;
  dueAt: number;
  deadline: number;
  checkpoint: Uint8Array | null;
}

/** What there is to do. All times are milliseconds since the Unix epoch, by the store's clock. */
export class Job {
  readonly id: string;
  readonly tenant: string;
  readonly topic: string;
  /** The body. */
  readonly bytes: Uint8Array;
  readonly contentType: string | null;
  /** Headers in order; names may repeat. */
  readonly metadata: readonly [string, string][];
  /** Jobs of the topic with the same key run one at a time and in order. */
  readonly key: string | null;
  /** 1 on the first try. */
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly enqueuedAt: number;
  readonly dueAt: number;
  readonly deadline: number;
  /** What an earlier attempt saved with {@link checkpoint}. */
  readonly checkpoint: Uint8Array | null;

  constructor(given: WireJob) {
    this.id = given.id;
    this.tenant = given.tenant;
    this.topic = given.topic;
    this.bytes = given.body.data;
    this.contentType = given.body.contentType ?? null;
    this.metadata = given.metadata;
    this.key = given.key;
    this.attempt = given.attempt;
    this.maxAttempts = given.maxAttempts;
    this.enqueuedAt = given.enqueuedAt;
    this.dueAt = given.dueAt;
    this.deadline = given.deadline;
    this.checkpoint = given.checkpoint;
  }

  /** The body as text; a body that is no UTF-8 rejects the job as `bad-payload`. */
  text(): string {
    try {
      return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(this.bytes);
    } catch {
      throw new Reject('bad-payload', 'the body is not UTF-8');
    }
  }

  /** The body as JSON; a body that is none rejects the job as `bad-payload`. What it holds is yours to check. */
  json(): unknown {
    const written = this.text();
    try {
      const surrogates = written.includes('\\ud') || written.includes('\\uD');
      return JSON.parse(written, surrogates ? wellFormed : undefined);
    } catch (error) {
      throw new Reject('bad-payload', `the body is not JSON: ${(error as Error).message}`);
    }
  }

  /** The first header of this name. */
  meta(name: string): string | undefined {
    return this.metadata.find(([found]) => found === name)?.[1];
  }
}

/** Refuses half a surrogate pair, which is no text and cannot be sent on. */
function wellFormed(key: string, value: unknown): unknown {
  if (!key.isWellFormed() || (typeof value === 'string' && !value.isWellFormed())) {
    throw new SyntaxError('half a surrogate pair in a string');
  }
  return value;
}

/** Makes this function the one that does the jobs: `export const handler = handle(…)`. */
export function handle(work: HandlerFunction): object {
  if (typeof work !== 'function') throw new TypeError(`handle(${describe(work)}): give it the function that does the jobs`);
  return host.exported((job: WireJob) => attempt(work, new Job(job)), failed);
}

/** One attempt: what `work` makes of `job`, or a promise of it. */
export function attempt(work: HandlerFunction, job: Job): Ending | Promise<Ending> {
  const ended = (result: Result | Snooze | void): Ending => (result instanceof Snooze ? result : payload(result ?? null));
  try {
    const result = work(job);
    return result instanceof Promise ? result.then(ended).catch(failed) : ended(result);
  } catch (error) {
    return failed(error);
  }
}

/**
 * What an error makes of the attempt: one that is no {@link Failure} is a retry, its stack logged and kept; a request that the
 * runner refused is a reject.
 */
function failed(error: unknown): Failure {
  if (error instanceof Failure) return error;
  const refused = requestRefused(error);
  if (refused) return refused;
  if (!(error instanceof Error)) return new Retry('exception', describe(error));
  const { stack, place } = host.traced(error);
  log.error('uncaught exception', { stack: `${error}\n${stack}`.trim() });
  return new Retry('exception', place ? `${error} (${place})` : `${error}`, { context: stack.slice(0, STACK_MAX) });
}

/** Letters of a stack that are kept with the attempt. */
const STACK_MAX = 4000;

/** What the runner says of a request over HTTP that another try would not change. */
const REFUSED: Record<string, (what: unknown) => string> = {
  'denied': (what) => `the request is not granted: ${what}`,
  'invalid': (problem) => `the request cannot be sent: ${problem}`,
  'too-large': (limit) => `the request or its answer is larger than ${limit} bytes`,
  'too-many': (limit) => `one attempt may send no more than ${limit} requests`,
};

interface Refusal {
  payload?: { tag?: string; val?: unknown };
}

/** `fetch` has the runner's refusal as the cause of its own error. */
function requestRefused(error: unknown): Reject | undefined {
  const thrown = error as (Refusal & { cause?: Refusal | null }) | null | undefined;
  const { tag, val } = thrown?.payload ?? thrown?.cause?.payload ?? {};
  const why = REFUSED[tag ?? ''];
  return why && new Reject(`http-${tag}`, why(val));
}

/** A follow-up job. */
export interface NewJob {
  topic: string;
  body?: Result;
  /** Any value, instead of `body`. */
  json?: unknown;
  /** Due so many milliseconds from now, by the store's clock. */
  after?: number;
  /** Due at this time. */
  at?: number | Date;
  /** At most one waiting or running job per topic and value. */
  unique?: string;
  /** Milliseconds: at most one within this time, whatever becomes of it. */
  uniqueFor?: number;
  priority?: Priority;
  key?: string;
  metadata?: Record<string, string> | [string, string][];
  /** Ids of jobs that have to end first, such as `job.id` or what an earlier {@link enqueue} returned. */
  afterJobs?: string[];
  /** What becomes of it if one of those was not done: it is dead, too, unless it says otherwise. */
  afterFailed?: 'dead' | 'run';
  /** Id of a job that waits, and waits for this one, too. */
  batch?: string;
  /** It waits until `gristmill job seal` or the HTTP API seals it, and all jobs that have it as their batch have ended. */
  open?: boolean;
}

/** Which jobs a follow-up waits for, and which one waits for it, as the contract has it. */
export interface Links {
  after: string[];
  afterFailed: 'dead' | 'run';
  batch: string | null;
  open: boolean;
}

/** A follow-up job as the contract has it. */
export interface WireNewJob {
  topic: string;
  body: Payload;
  metadata: [string, string][];
  key: string | null;
  notBefore: number | null;
  unique: string | null;
  priority: Priority;
  uniqueWindow: number | null;
  /** Only of a job that has any. */
  links?: Links;
}

/**
 * Adds a job that becomes visible in the step that acknowledges this one, or not at all; returns its id.
 *
 * @throws {Reject} `enqueue-failed`: the runner refused it, and would again; the attempt may go on regardless
 * @throws {Retry} `enqueue-failed`: there is no such topic yet
 */
export function enqueue(job: NewJob): string {
  const { after, at, metadata = [] } = job;
  const wire: WireNewJob = {
    topic: job.topic,
    body: (job.json === undefined ? payload(job.body) : json(job.json)) ?? bytes(new Uint8Array()),
    metadata: Array.isArray(metadata) ? metadata : Object.entries(metadata),
    key: job.key ?? null,
    notBefore: after === undefined ? optional(at, (at) => millis('at', Number(at))) : now() + millis('after', after),
    unique: job.unique ?? null,
    priority: job.priority ?? 'normal',
    uniqueWindow: optional(job.uniqueFor, (window) => millis('uniqueFor', window)),
    ...linked(job),
  };
  return host.enqueue(wire);
}

function linked({ afterJobs: after = [], afterFailed = 'dead', batch, open = false }: NewJob): { links?: Links } {
  return after.length > 0 || batch !== undefined || open ? { links: { after, afterFailed, batch: batch ?? null, open } } : {};
}

/** Values that are no text are written as JSON. */
export type Fields = Record<string, unknown>;

/** Log lines of the job; the runner adds topic, job and attempt. */
export const log = {
  trace: (message: string, fields?: Fields) => emit('trace', message, fields),
  debug: (message: string, fields?: Fields) => emit('debug', message, fields),
  info: (message: string, fields?: Fields) => emit('info', message, fields),
  warn: (message: string, fields?: Fields) => emit('warn', message, fields),
  error: (message: string, fields?: Fields) => emit('error', message, fields),
  /** Whether anybody keeps lines of this level. */
  enabled: (level: Level): boolean => host.enabled(level),
};

function emit(level: Level, message: string, fields: Fields = {}): void {
  host.emit(level, message, Object.entries(fields).map(([name, value]) => [name, describe(value)]));
}

/** What the manifest grants this topic; undefined if it is missing or not granted. */
export const config = {
  get: (name: string): string | undefined => host.get(name) ?? undefined,
  secret: (name: string): Uint8Array | undefined => host.secret(name) ?? undefined,
};

/**
 * What the jobs of a key leave for each other, in a topic with `state = true`. Of the jobs of a key one runs at a time. What is set is
 * stored in the step that completes this job, or not at all; the last call counts. A {@link Reject} if the job has no key (`no-key`) or the
 * state is too large (`state-too-large`), a {@link Retry} if the store does not answer.
 */
export const state = {
  /** The state; undefined if there is none. After `set`, what that said. */
  get: (): Uint8Array | undefined => host.getState() ?? undefined,
  /** Has the state be this; undefined deletes it. */
  set: (value: Uint8Array | string | undefined): void =>
    host.setState(optional(value, (value) => (typeof value === 'string' ? new TextEncoder().encode(value) : value))),
  /** The state from JSON; undefined if there is none. */
  json(): any {
    const value = state.get();
    try {
      return value && JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(value));
    } catch (error) {
      throw new Reject('bad-state', `the state is not the expected JSON: ${(error as Error).message}`);
    }
  },
  /** Has the state be this value as JSON. */
  setJson: (value: unknown): void => state.set(JSON.stringify(value)),
};

/** Milliseconds since the Unix epoch, by the store's clock. */
export const now = (): number => host.now();

/** Fuel left for this attempt. */
export const fuelRemaining = (): number => host.fuelRemaining();

/** True once the job was cancelled or the runner is ending: a long handler should ask, and stop. */
export const isCancelled = (): boolean => host.isCancelled();

/**
 * Saves durably where this job is; the next attempt finds it in `job.checkpoint`.
 *
 * @throws {Reject} `checkpoint-failed`: it is larger than the topic allows
 * @throws {Retry} `checkpoint-failed`: the store cannot take it now
 */
export function checkpoint(state: Uint8Array | string): void {
  host.checkpoint(typeof state === 'string' ? new TextEncoder().encode(state) : state);
}

/** For people who watch: how much is done, from 0 to 1, and a short note. */
export function progress(done: number, note?: string): void {
  host.progress(Math.round(Math.min(Math.max(done, 0), 1) * 10_000) || 0, note ?? null);
}

function optional<T, U>(value: T | undefined | null, change: (value: T) => U): U | null {
  return value === undefined || value === null ? null : change(value);
}

/** The contract counts whole milliseconds, and a value of another kind would trap. */
function millis(name: string, value: number): number {
  if (typeof value !== 'number' || !(value >= 0 && value <= Number.MAX_SAFE_INTEGER)) {
    throw new TypeError(`${name}: ${describe(value)} is no number of milliseconds`);
  }
  return Math.trunc(value);
}

/** Text as it is, anything else as JSON if there is any. */
export function describe(value: unknown): string {
  if (typeof value === 'string') return value;
  if (value instanceof Error) return String(value);
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return String(value);
  }
}

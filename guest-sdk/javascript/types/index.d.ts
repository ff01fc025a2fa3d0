/**
 * Write a handler as a function of JavaScript or TypeScript: what the contract `job.wit` offers, in their own terms.
 *
 *     import { handle, log } from 'gristmill-guest';
 *
 *     export const handler = handle((job) => {
 *       const { name } = job.json() as { name: string };
 *       log.info('greet', { attempt: job.attempt });
 *       return { hello: name };
 *     });
 *
 * In a component the calls go to the runner, anywhere else to the fake of `gristmill-guest/testing`.
 */

export type Level = 'trace' | 'debug' | 'info' | 'warn' | 'error';
export type Priority = 'high' | 'normal' | 'low';
/** An object or an array is sent as JSON, text as `text/plain`. */
export type Result = undefined | null | string | Uint8Array | Payload | object;
/** It may be `async`. */
export type HandlerFunction = (job: Job) => Result | Snooze | void | Promise<Result | Snooze | void>;
/** What an attempt comes to: a payload, unless it failed or is to run again; null, if it has no result. */
export type Ending = Payload | Snooze | Failure | null;

/** Ends the attempt: throw a {@link Retry} or a {@link Reject}. */
export abstract class Failure extends Error {
  readonly code: string;
  /** Kept with the attempt. */
  readonly context: Payload | null;

  /** `code` is stable and for machines, such as `upstream-timeout`; `message` is for people; `context` is kept with the attempt. */
  constructor(code: string, message: string, options?: { context?: Result });

  /** Throws this, as there is no result: so a test shows why. */
  text(): never;
  json(): never;
}

/** Transient: the job is tried again, until its attempts are used up. */
export class Retry extends Failure {
  readonly after: number | null;

  /** `after` is in milliseconds, instead of the topic's backoff. */
  constructor(code: string, message: string, options?: { after?: number; context?: Result });
}

/** Permanent: the job is dead at once, and a person finds it with this code and message on it. */
export class Reject extends Failure {}

/** Bytes and the format that they are in; see {@link json}, {@link text} and {@link bytes}. */
export class Payload {
  readonly data: Uint8Array;
  /** None means opaque bytes. */
  readonly contentType: string | null;

  constructor(data: Uint8Array, contentType?: string | null);

  /** Throws if it is not UTF-8. */
  text(): string;
  /** Throws if it is no JSON. */
  json(): any;
}

/** Any value as JSON. */
export function json(value: unknown): Payload;
export function text(value: string): Payload;
export function bytes(data: Uint8Array, contentType?: string): Payload;

/** Neither done nor failed. Made by {@link snooze}. */
export class Snooze {
  readonly wait: number;

  constructor(wait: number);

  /** Throws, as there is no result yet. */
  text(): never;
  json(): never;
}

/** Return this to run the job again after so many milliseconds, without using up an attempt. */
export function snooze(wait: number): Snooze;

/** A job as the contract has it. */
export interface WireJob {
  id: string;
  tenant: string;
  topic: string;
  body: { data: Uint8Array; contentType?: string | null };
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

  constructor(given: WireJob);

  /** The body as text; a body that is no UTF-8 rejects the job as `bad-payload`. */
  text(): string;
  /** The body as JSON; a body that is none rejects the job as `bad-payload`. What it holds is yours to check. */
  json(): unknown;
  /** The first header of this name. */
  meta(name: string): string | undefined;
}

/** Makes this function the one that does the jobs: `export const handler = handle(…)`. */
export function handle(work: HandlerFunction): object;

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
  /** Jobs of the topic with the same key run one at a time and in order. */
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
 * Adds a job that becomes visible in the step that acknowledges this one, or not at all; returns the id that the job will have.
 *
 * @throws {Reject} `enqueue-failed`: the runner refused it, and would again; the attempt may go on regardless
 * @throws {Retry} `enqueue-failed`: there is no such topic yet
 */
export function enqueue(job: NewJob): string;

/** Values that are no text are written as JSON. */
export type Fields = Record<string, unknown>;

/** Log lines of the job; the runner adds topic, job and attempt. */
export const log: {
  trace(message: string, fields?: Fields): void;
  debug(message: string, fields?: Fields): void;
  info(message: string, fields?: Fields): void;
  warn(message: string, fields?: Fields): void;
  error(message: string, fields?: Fields): void;
  /** Whether anybody keeps lines of this level. */
  enabled(level: Level): boolean;
};

/** What the manifest grants this topic; undefined if it is missing or not granted. */
export const config: {
  get(name: string): string | undefined;
  secret(name: string): Uint8Array | undefined;
};

/**
 * What the jobs of a key leave for each other, in a topic with `state = true`. Of the jobs of a key one runs at a time. What is set is
 * stored in the step that completes this job, or not at all; the last call counts. A {@link Reject} if the job has no key (`no-key`) or the
 * state is too large (`state-too-large`), a {@link Retry} if the store does not answer.
 */
export const state: {
  /** The state; undefined if there is none. After `set`, what that said. */
  get(): Uint8Array | undefined;
  /** Has the state be this; undefined deletes it. */
  set(value: Uint8Array | string | undefined): void;
  /** The state from JSON; undefined if there is none. */
  json(): any;
  /** Has the state be this value as JSON. */
  setJson(value: unknown): void;
};

/** Milliseconds since the Unix epoch, by the store's clock. */
export function now(): number;

/** Fuel left for this attempt. */
export function fuelRemaining(): number;

/** True once the job was cancelled or the runner is ending: a long handler should ask, and stop. */
export function isCancelled(): boolean;

/**
 * Saves durably where this job is; the next attempt finds it in `job.checkpoint`.
 *
 * @throws {Reject} `checkpoint-failed`: it is larger than the topic allows
 * @throws {Retry} `checkpoint-failed`: the store cannot take it now
 */
export function checkpoint(state: Uint8Array | string): void;

/** For people who watch: how much is done, from 0 to 1, and a short note. */
export function progress(done: number, note?: string): void;

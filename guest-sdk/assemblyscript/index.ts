// What a handler of Gristmill, the job runner, is written with.
//
// A handler is one function, `handle` in assembly/handler.ts. It gets a job and says how the attempt ended:
//
//   export function handle(job: Job): Ending {
//     info("order", [["id", job.id]]);
//     return complete(Payload.json(`{"paid":true}`));
//   }

import * as contract from "./contract";
import { Level, Priority } from "./contract";

export { Level, Priority };

/** Bytes and the format they are in: a media type such as `application/json`; null means opaque octets. */
export class Payload {
  constructor(
    public data: Uint8Array,
    public contentType: string | null = null,
  ) {}

  static json(json: string): Payload {
    return new Payload(Uint8Array.wrap(String.UTF8.encode(json)), "application/json");
  }

  static text(text: string): Payload {
    return new Payload(Uint8Array.wrap(String.UTF8.encode(text)), "text/plain; charset=utf-8");
  }
}

/** Names and values, in order; names may repeat. */
export type Pairs = string[][];

/** All that a handler may observe about its input. Times are milliseconds since 1970 by the store's clock. */
export class Job {
  /** A ULID, 26 characters; the same on every attempt. */
  id: string = "";
  tenant: string = "";
  topic: string = "";
  body: Payload = new Payload(new Uint8Array(0));
  metadata: Pairs = [];
  /** Jobs of the topic with the same key run one at a time and in order. */
  key: string | null = null;
  /** 1 on the first delivery. */
  attempt: u32 = 1;
  maxAttempts: u32 = 1;
  enqueuedAt: u64 = 0;
  dueAt: u64 = 0;
  /** The hard limit of this attempt. */
  deadline: u64 = 0;
  /** What an earlier attempt saved with `checkpoint`. */
  checkpoint: Uint8Array | null = null;

  /** The body. What is no UTF-8 in it becomes other text; `Json.parse` refuses it. */
  text(): string {
    return String.UTF8.decodeUnsafe(this.body.data.dataStart, this.body.data.length);
  }

  /** The first value of this name in the metadata. */
  meta(name: string): string | null {
    for (let i = 0; i < this.metadata.length; i++) {
      if (this.metadata[i][0] == name) return this.metadata[i][1];
    }
    return null;
  }
}

export enum Kind {
  Complete,
  Snooze,
  Retry,
  Reject,
}

/** How an attempt ended. Made by `complete`, `snooze`, `retry` and `reject`. */
export class Ending {
  code: string = "";
  message: string = "";
  /** The result, or what is to be kept with a failure, such as an upstream's answer. */
  payload: Payload | null = null;
  /** Milliseconds until the next attempt; of a retry, negative for the topic's backoff. */
  wait: i64 = -1;

  constructor(public kind: Kind) {}

  /** Retries after so many milliseconds instead of the topic's backoff. */
  after(millis: u64): Ending {
    this.wait = min<u64>(millis, i64.MAX_VALUE);
    return this;
  }
}

/** Done. The payload is kept as the job's result. */
export function complete(result: Payload | null = null): Ending {
  const ending = new Ending(Kind.Complete);
  ending.payload = result;
  return ending;
}

/** Neither finished nor failed: run this job again after so many milliseconds. The attempt does not count. */
export function snooze(millis: u64): Ending {
  return new Ending(Kind.Snooze).after(millis);
}

/** Failed, and another try may help. `code` is stable and for machines, `message` for people. */
export function retry(code: string, message: string): Ending {
  return failure(Kind.Retry, code, message);
}

/** Failed, and another try would end the same: to the dead letters at once. */
export function reject(code: string, message: string): Ending {
  return failure(Kind.Reject, code, message);
}

function failure(kind: Kind, code: string, message: string): Ending {
  const ending = new Ending(kind);
  ending.code = code;
  ending.message = message;
  return ending;
}

/** Writes a line to the job's log. The runner adds tenant, topic, job and attempt. */
export function log(level: Level, message: string, fields: Pairs = []): void {
  contract.log.emit(level, message, fields);
}

export function debug(message: string, fields: Pairs = []): void {
  if (contract.log.enabled(Level.Debug)) log(Level.Debug, message, fields);
}

export function info(message: string, fields: Pairs = []): void {
  log(Level.Info, message, fields);
}

export function warn(message: string, fields: Pairs = []): void {
  log(Level.Warn, message, fields);
}

export function error(message: string, fields: Pairs = []): void {
  log(Level.Error, message, fields);
}

/** What the compiler calls where a program fails: a wrong index, `throw`, `assert`, memory that ran out. */
export function abort(message: string | null, file: string | null, line: u32, column: u32): void {
  const what = message === null ? "abort" : message;
  const where = file === null ? "" : `${file}:${line}:${column}`;
  error("abort", [["cause", what], ["at", where]]);
  unreachable();
}

/** A follow-up job of the same tenant. */
export class NewJob {
  metadata: Pairs = [];
  /** Jobs of the topic with the same key run one at a time and in order. */
  key: string | null = null;
  /** When it becomes due, in milliseconds since 1970; at once if 0. */
  notBefore: u64 = 0;
  /** One job per topic and value: until it is done, or for the window, in milliseconds. */
  unique: string | null = null;
  uniqueWindow: u64 = 0;
  priority: Priority = Priority.Normal;
  /** Ids of jobs that have to end first, such as that of the job that runs, or what `enqueue` answered before. */
  afterJobs: string[] = [];
  /** It runs even if one of those was not done; otherwise it is dead, too. */
  runAfterFailed: bool = false;
  /** Id of a job that waits, and waits for this one, too. */
  batch: string | null = null;
  /** It waits until `gristmill job seal` or the HTTP API seals it, and all jobs that have it as their batch have ended. */
  open: bool = false;

  constructor(
    public topic: string,
    public body: Payload,
  ) {}
}

/** What became of a call that the runner may refuse. */
export class Answer {
  constructor(
    /** Of an enqueued job, its id. */
    public id: string,
    /** What to return if it was not done: a reject if another try would end the same, else a retry. */
    public failure: Ending | null = null,
  ) {}
}

/**
 * Hands a follow-up job to the runner. Nothing is visible to anyone until the handler returns, and then only if the
 * attempt did not fail. A refused job leaves the others as they are.
 */
export function enqueue(job: NewJob): Answer {
  const made = new contract.NewJob(
    job.topic, job.body, job.metadata, job.key, someUnless0(job.notBefore), job.unique, job.priority, someUnless0(job.uniqueWindow),
  );
  const afterFailed = job.runAfterFailed ? contract.AfterFailed.Run : contract.AfterFailed.Dead;
  const answer = contract.queue.enqueueLinked(made, new contract.Links(job.afterJobs, afterFailed, job.batch, job.open));
  const refused = answer.err;
  return refused === null ? new Answer(answer.ok!) : new Answer("", enqueueFailure(refused, job.topic));
}

function someUnless0(value: u64): contract.Some<u64> | null {
  return value > 0 ? new contract.Some<u64>(value) : null;
}

function enqueueFailure(refused: contract.LinkedError, topic: string): Ending {
  switch (refused.kind) {
    case contract.LinkedErrorKind.Denied:
      return reject("enqueue-failed", "the manifest does not let this topic enqueue to that one");
    case contract.LinkedErrorKind.TooLarge:
      return reject("enqueue-failed", "the body is larger than that topic accepts");
    case contract.LinkedErrorKind.TooMany:
      return reject("enqueue-failed", "one attempt may not enqueue so many jobs");
    case contract.LinkedErrorKind.UnknownTopic:
      return retry("enqueue-failed", `there is no topic "${topic}" to enqueue to; name it under "topics" in the manifest`);
    default:
      return reject("enqueue-failed", `the job has invalid links: ${refused.invalidLinks}`);
  }
}

/** A request over HTTP, to a host that the manifest grants this topic. */
export class Request {
  /** Names may repeat. `host`, `content-length`, `connection` and their like are the runner's to set. */
  headers: Pairs = [];
  body: Uint8Array | null = null;
  /** Milliseconds for all of it, redirects included. 0, or more than the topic is granted: what it is granted. */
  timeout: u64 = 0;
  /** To follow, 20 at most. Otherwise a redirect is an answer like any other. */
  redirects: u32 = 0;

  constructor(
    public method: string,
    /** Absolute, without user, password and fragment. */
    public url: string,
  ) {}
}

/** A whole answer, whatever its status; or why there is none. */
export class Response {
  status: u16 = 0;
  /** Names in lower case, in order; they may repeat. */
  headers: Pairs = [];
  body: Uint8Array = new Uint8Array(0);
  /** Where the answer came from. */
  url: string = "";

  constructor(
    /** What to return if there is no answer: a reject if another try would end the same, else a retry. */
    public failure: Ending | null = null,
  ) {}

  /** The first value of this header, by its name in lower case. */
  header(name: string): string | null {
    for (let i = 0; i < this.headers.length; i++) {
      if (this.headers[i][0] == name) return this.headers[i][1];
    }
    return null;
  }

  text(): string {
    return String.UTF8.decodeUnsafe(this.body.dataStart, this.body.length);
  }
}

/**
 * Sends a request and waits for the whole answer. A component that calls this imports `gristmill:job/http`, and runs only in topics
 * that grant requests.
 */
export function send(request: Request): Response {
  const answer = contract.http.send(
    new contract.Request(request.method, request.url, request.headers, request.body, someUnless0(request.timeout), request.redirects),
  );
  const refused = answer.err;
  return refused === null ? answer.ok! : new Response(requestFailure(refused));
}

function requestFailure(refused: contract.HttpError): Ending {
  switch (refused.kind) {
    case contract.HttpErrorKind.Denied:
      return reject("http-denied", `the request is not granted: ${refused.denied}`);
    case contract.HttpErrorKind.Invalid:
      return reject("http-invalid", `the request cannot be sent: ${refused.invalid}`);
    case contract.HttpErrorKind.Timeout:
      return retry("http-timeout", "no answer in time");
    case contract.HttpErrorKind.TooLarge:
      return reject("http-too-large", `the request or its answer is larger than ${refused.tooLarge} bytes`);
    case contract.HttpErrorKind.TooMany:
      return reject("http-too-many", `one attempt may send no more than ${refused.tooMany} requests`);
    default:
      return retry("http-unreachable", `nothing answers: ${refused.unreachable}`);
  }
}

/** The store's clock, in milliseconds since 1970. */
export function now(): u64 {
  return contract.context.now();
}

/** What this attempt may still spend; about one unit an instruction. */
export function fuelRemaining(): u64 {
  return contract.context.fuelRemaining();
}

/** Whether the job was cancelled or the runner is ending. Who never asks is stopped at the deadline. */
export function isCancelled(): bool {
  return contract.context.isCancelled();
}

/** Saves a state durably: the next attempt finds it in `job.checkpoint`. */
export function checkpoint(state: Uint8Array): Answer {
  const refused = contract.context.checkpoint(state);
  if (refused === null) return new Answer("");
  if (refused.kind == contract.CheckpointErrorKind.Unavailable) return new Answer("", retry("checkpoint-failed", refused.unavailable));
  return new Answer("", reject("checkpoint-failed", `the state is larger than ${refused.tooLarge} bytes`));
}

/** The state of the job's key, or why it cannot be read. */
export class State {
  constructor(
    /** What earlier jobs of the key left; null if there is nothing. */
    public value: Uint8Array | null,
    /** To be returned by the handler: another try helps only if the store did not answer. */
    public failure: Ending | null = null,
  ) {}
}

/**
 * What earlier jobs of this job's key left. After `setState`, what that said. Of the jobs of a key one runs at a time. A component that uses
 * it imports gristmill:job/state, and runs only in topics with state = true.
 */
export function state(): State {
  const answer = contract.state.get();
  return new State(answer.ok, stateFailure(answer.err));
}

/** Has the state be these bytes once the job has completed, or not at all; null deletes it. Returns why it cannot be, if it cannot. */
export function setState(value: Uint8Array | null): Ending | null {
  return stateFailure(contract.state.set(value));
}

function stateFailure(refused: contract.StateError | null): Ending | null {
  if (refused === null) return null;
  switch (refused.kind) {
    case contract.StateErrorKind.NoKey:
      return reject("no-key", "the job has no key, so it has no state: push it with one");
    case contract.StateErrorKind.TooLarge:
      return reject("state-too-large", `the state is larger than ${refused.tooLarge} bytes`);
    default:
      return retry("state-unavailable", `the state cannot be read now: ${refused.unavailable}`);
  }
}

/** For people who watch: 0 to 10000 (basis points) and a short note. */
export function progress(basisPoints: u32, note: string | null = null): void {
  contract.context.progress(basisPoints, note);
}

/** A setting that the manifest grants this topic; null if it does not. */
export function config(name: string): string | null {
  return contract.config.get(name);
}

/** A secret that the manifest grants this topic; null if it does not. */
export function secret(name: string): Uint8Array | null {
  return contract.config.secret(name);
}

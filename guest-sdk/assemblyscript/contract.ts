// The contract of wit/job.wit by the component model's canonical ABI. Generated: `cargo run -p gristmill-guest-abi` in Gristmill's
// repository writes it anew.
//
// What is handed over lies outside the collector's reach, and is freed by `release`.

import { Job, Pairs, Payload, Response } from "./index";

/** A plain value that may be missing. */
export class Some<T> {
  constructor(public value: T) {}
}

/** What a call returned, or why it failed. */
export class Result<T, E> {
  constructor(
    public ok: T,
    public err: E | null,
  ) {}
}

/** The block that was lent last; each begins with the address of the one before. */
let last: usize = 0;
const HEAD: usize = 16; // as the heap aligns to 16, more than anything needs

/** Memory that both sides know, until `release`. */
function lend(size: usize): usize {
  const block = heap.alloc(HEAD + size);
  store<usize>(block, last);
  last = block;
  return block + HEAD;
}

/** Frees all that was lent, by either side. */
export function release(): void {
  while (last) {
    const block = last;
    last = load<usize>(block);
    heap.free(block);
  }
}

/** Where the host puts what it hands over. It calls nothing of ours while we are in here, nor may we call it. */
export function realloc(old: usize, oldSize: usize, size: usize): usize {
  const at = lend(size);
  memory.copy(at, old, min(oldSize, size));
  return at;
}

/** An object whose fields are set at once. */
function blank<T>(): T {
  return changetype<T>(__new(offsetof<T>(), idof<T>()));
}

function liftText(at: usize): string {
  return String.UTF8.decodeUnsafe(load<usize>(at), load<usize>(at, 4));
}

function storeText(at: usize, text: string): void {
  const size = String.UTF8.byteLength(text);
  const copy = lend(size);
  String.UTF8.encodeUnsafe(changetype<usize>(text), text.length, copy);
  store<usize>(at, copy);
  store<usize>(at, size, 4);
}

function liftBytes(at: usize): Uint8Array {
  const data = new Uint8Array(load<i32>(at, 4));
  memory.copy(data.dataStart, load<usize>(at), data.length);
  return data;
}

function storeBytes(at: usize, data: Uint8Array): void {
  const copy = lend(data.length);
  memory.copy(copy, data.dataStart, data.length);
  store<usize>(at, copy);
  store<usize>(at, data.length, 4);
}

function liftPair(at: usize): string[] {
  return [liftText(at), liftText(at + 8)];
}

function storePair(at: usize, pair: string[]): void {
  storeText(at, pair[0]);
  storeText(at + 8, pair[1]);
}

function liftList<T>(at: usize, size: usize, lift: (at: usize) => T): T[] {
  const list: T[] = [];
  const begin = load<usize>(at);
  const end = begin + load<usize>(at, 4) * size;
  for (let item = begin; item < end; item += size) list.push(lift(item));
  return list;
}

function storeList<T>(at: usize, list: T[], size: usize, storeItem: (at: usize, value: T) => void): void {
  let item = lend(<usize>list.length * size);
  store<usize>(at, item);
  store<usize>(at, list.length, 4);
  for (let i = 0; i < list.length; i++) {
    storeItem(item, list[i]);
    item += size;
  }
}

export enum CheckpointErrorKind {
  TooLarge,
  Unavailable,
}

/** The field of its kind has the value. */
export class CheckpointError {
  tooLarge: u64 = 0;
  unavailable: string = "";

  constructor(public kind: CheckpointErrorKind) {}
}

export enum EnqueueErrorKind {
  Denied,
  TooLarge,
  TooMany,
  UnknownTopic,
}

/** The field of its kind has the value. */
export class EnqueueError {
  tooLarge: u64 = 0;
  tooMany: u32 = 0;

  constructor(public kind: EnqueueErrorKind) {}
}

export enum LinkedErrorKind {
  Denied,
  TooLarge,
  TooMany,
  UnknownTopic,
  InvalidLinks,
}

/** The field of its kind has the value. */
export class LinkedError {
  tooLarge: u64 = 0;
  tooMany: u32 = 0;
  invalidLinks: string = "";

  constructor(public kind: LinkedErrorKind) {}
}

export enum HttpErrorKind {
  Denied,
  Invalid,
  Timeout,
  TooLarge,
  TooMany,
  Unreachable,
}

/** The field of its kind has the value. */
export class HttpError {
  denied: string = "";
  invalid: string = "";
  tooLarge: u64 = 0;
  tooMany: u32 = 0;
  unreachable: string = "";

  constructor(public kind: HttpErrorKind) {}
}

export enum StateErrorKind {
  NoKey,
  TooLarge,
  Unavailable,
}

/** The field of its kind has the value. */
export class StateError {
  tooLarge: u64 = 0;
  unavailable: string = "";

  constructor(public kind: StateErrorKind) {}
}

export enum Priority {
  High,
  Normal,
  Low,
}

export class NewJob {
  constructor(
    public topic: string,
    public body: Payload,
    public metadata: Pairs,
    public key: string | null,
    public notBefore: Some<u64> | null,
    public unique: string | null,
    public priority: Priority,
    public uniqueWindow: Some<u64> | null,
  ) {}
}

export enum AfterFailed {
  Dead,
  Run,
}

export class Links {
  constructor(
    public after: Array<string>,
    public afterFailed: AfterFailed,
    public batch: string | null,
    public open: bool,
  ) {}
}

export enum Level {
  Trace,
  Debug,
  Info,
  Warn,
  Error,
}

export class Request {
  constructor(
    public method: string,
    public url: string,
    public headers: Pairs,
    public body: Uint8Array | null,
    public timeout: Some<u64> | null,
    public redirects: u32,
  ) {}
}

export enum OutcomeKind {
  Complete,
  Snooze,
}

/** The field of its kind has the value. */
export class Outcome {
  complete: Payload | null = null;
  snooze: u64 = 0;

  constructor(public kind: OutcomeKind) {}
}

export class FailureDetail {
  constructor(
    public code: string,
    public message: string,
    public context: Payload | null,
  ) {}
}

export class FailureRetryValue {
  constructor(
    public value0: FailureDetail,
    public value1: Some<u64> | null,
  ) {}
}

export enum FailureKind {
  Retry,
  Reject,
}

/** The field of its kind has the value. */
export class Failure {
  retry: FailureRetryValue | null = null;
  reject: FailureDetail | null = null;

  constructor(public kind: FailureKind) {}
}

function liftCheckpointError(at: usize): CheckpointError {
  const value = new CheckpointError(load<u8>(at));
  switch (value.kind) {
    case CheckpointErrorKind.TooLarge:
      value.tooLarge = load<u64>(at, 8);
      break;
    case CheckpointErrorKind.Unavailable:
      value.unavailable = liftText(at + 8);
      break;
  }
  return value;
}

function liftEnqueueError(at: usize): EnqueueError {
  const value = new EnqueueError(load<u8>(at));
  switch (value.kind) {
    case EnqueueErrorKind.TooLarge:
      value.tooLarge = load<u64>(at, 8);
      break;
    case EnqueueErrorKind.TooMany:
      value.tooMany = load<u32>(at, 8);
      break;
  }
  return value;
}

function liftLinkedError(at: usize): LinkedError {
  const value = new LinkedError(load<u8>(at));
  switch (value.kind) {
    case LinkedErrorKind.TooLarge:
      value.tooLarge = load<u64>(at, 8);
      break;
    case LinkedErrorKind.TooMany:
      value.tooMany = load<u32>(at, 8);
      break;
    case LinkedErrorKind.InvalidLinks:
      value.invalidLinks = liftText(at + 8);
      break;
  }
  return value;
}

function liftResponse(at: usize): Response {
  const value = blank<Response>();
  value.status = load<u16>(at);
  value.headers = liftList<string[]>(at + 4, 16, liftPair);
  value.body = liftBytes(at + 12);
  value.url = liftText(at + 20);
  return value;
}

function liftHttpError(at: usize): HttpError {
  const value = new HttpError(load<u8>(at));
  switch (value.kind) {
    case HttpErrorKind.Denied:
      value.denied = liftText(at + 8);
      break;
    case HttpErrorKind.Invalid:
      value.invalid = liftText(at + 8);
      break;
    case HttpErrorKind.TooLarge:
      value.tooLarge = load<u64>(at, 8);
      break;
    case HttpErrorKind.TooMany:
      value.tooMany = load<u32>(at, 8);
      break;
    case HttpErrorKind.Unreachable:
      value.unreachable = liftText(at + 8);
      break;
  }
  return value;
}

function liftStateError(at: usize): StateError {
  const value = new StateError(load<u8>(at));
  switch (value.kind) {
    case StateErrorKind.TooLarge:
      value.tooLarge = load<u64>(at, 8);
      break;
    case StateErrorKind.Unavailable:
      value.unavailable = liftText(at + 8);
      break;
  }
  return value;
}

function liftPayload(at: usize): Payload {
  const value = blank<Payload>();
  value.data = liftBytes(at);
  value.contentType = load<bool>(at, 8) ? liftText(at + 12) : null;
  return value;
}

function liftJob(at: usize): Job {
  const value = blank<Job>();
  value.id = liftText(at);
  value.tenant = liftText(at + 8);
  value.topic = liftText(at + 16);
  value.body = liftPayload(at + 24);
  value.metadata = liftList<string[]>(at + 44, 16, liftPair);
  value.key = load<bool>(at, 52) ? liftText(at + 56) : null;
  value.attempt = load<u32>(at, 64);
  value.maxAttempts = load<u32>(at, 68);
  value.enqueuedAt = load<u64>(at, 72);
  value.dueAt = load<u64>(at, 80);
  value.deadline = load<u64>(at, 88);
  value.checkpoint = load<bool>(at, 96) ? liftBytes(at + 100) : null;
  return value;
}

function storePayload(at: usize, value: Payload): void {
  storeBytes(at, value.data);
  const contentType = value.contentType;
  store<bool>(at, contentType !== null, 8);
  if (contentType !== null) storeText(at + 12, contentType);
}

function storeNewJob(at: usize, value: NewJob): void {
  storeText(at, value.topic);
  storePayload(at + 8, value.body);
  storeList<string[]>(at + 28, value.metadata, 16, storePair);
  const key = value.key;
  store<bool>(at, key !== null, 36);
  if (key !== null) storeText(at + 40, key);
  const notBefore = value.notBefore;
  store<bool>(at, notBefore !== null, 48);
  if (notBefore !== null) store<u64>(at, notBefore.value, 56);
  const unique = value.unique;
  store<bool>(at, unique !== null, 64);
  if (unique !== null) storeText(at + 68, unique);
  store<u8>(at, <u8>value.priority, 76);
  const uniqueWindow = value.uniqueWindow;
  store<bool>(at, uniqueWindow !== null, 80);
  if (uniqueWindow !== null) store<u64>(at, uniqueWindow.value, 88);
}

function storeLinks(at: usize, value: Links): void {
  storeList<string>(at, value.after, 8, storeText);
  store<u8>(at, <u8>value.afterFailed, 8);
  const batch = value.batch;
  store<bool>(at, batch !== null, 12);
  if (batch !== null) storeText(at + 16, batch);
  store<bool>(at, value.open, 24);
}

function storeRequest(at: usize, value: Request): void {
  storeText(at, value.method);
  storeText(at + 8, value.url);
  storeList<string[]>(at + 16, value.headers, 16, storePair);
  const body = value.body;
  store<bool>(at, body !== null, 24);
  if (body !== null) storeBytes(at + 28, body);
  const timeout = value.timeout;
  store<bool>(at, timeout !== null, 40);
  if (timeout !== null) store<u64>(at, timeout.value, 48);
  store<u32>(at, value.redirects, 56);
}

function storeOutcome(at: usize, value: Outcome): void {
  store<u8>(at, <u8>value.kind);
  switch (value.kind) {
    case OutcomeKind.Complete: {
      const complete = value.complete;
      store<bool>(at, complete !== null, 8);
      if (complete !== null) storePayload(at + 12, complete);
      break;
    }
    case OutcomeKind.Snooze: {
      store<u64>(at, value.snooze, 8);
      break;
    }
  }
}

function storeFailureDetail(at: usize, value: FailureDetail): void {
  storeText(at, value.code);
  storeText(at + 8, value.message);
  const context = value.context;
  store<bool>(at, context !== null, 16);
  if (context !== null) storePayload(at + 20, context);
}

function storeFailureRetryValue(at: usize, value: FailureRetryValue): void {
  storeFailureDetail(at, value.value0);
  const value1 = value.value1;
  store<bool>(at, value1 !== null, 40);
  if (value1 !== null) store<u64>(at, value1.value, 48);
}

function storeFailure(at: usize, value: Failure): void {
  store<u8>(at, <u8>value.kind);
  switch (value.kind) {
    case FailureKind.Retry: {
      storeFailureRetryValue(at + 8, value.retry!);
      break;
    }
    case FailureKind.Reject: {
      storeFailureDetail(at + 8, value.reject!);
      break;
    }
  }
}

@external("gristmill:job/context@0.1.0", "fuel-remaining")
declare function hostContextFuelRemaining(): u64;

@external("gristmill:job/context@0.1.0", "now")
declare function hostContextNow(): u64;

@external("gristmill:job/context@0.1.0", "is-cancelled")
declare function hostContextIsCancelled(): bool;

@external("gristmill:job/context@0.1.0", "checkpoint")
declare function hostContextCheckpoint(p0: usize, p1: usize, p2: usize): void;

@external("gristmill:job/context@0.1.0", "progress")
declare function hostContextProgress(p0: u32, p1: u32, p2: usize, p3: usize): void;

export namespace context {
  export function fuelRemaining(): u64 {
    return hostContextFuelRemaining();
  }

  export function now(): u64 {
    return hostContextNow();
  }

  export function isCancelled(): bool {
    return hostContextIsCancelled();
  }

  export function checkpoint(state: Uint8Array): CheckpointError | null {
    const at = lend(32);
    storeBytes(at, state);
    const answer = at + 8;
    hostContextCheckpoint(load<usize>(at), load<usize>(at, 4), answer);
    const result = load<bool>(answer) ? liftCheckpointError(answer + 8) : null;
    release();
    return result;
  }

  export function progress(basisPoints: u32, note: string | null): void {
    const at = lend(16);
    store<bool>(at, note !== null, 4);
    if (note !== null) storeText(at + 8, note);
    hostContextProgress(basisPoints, load<bool>(at, 4), load<usize>(at, 8), load<usize>(at, 12));
    release();
  }
}

@external("gristmill:job/queue@0.1.0", "enqueue")
declare function hostQueueEnqueue(p0: usize, p1: usize): void;

@external("gristmill:job/queue@0.1.0", "enqueue-linked")
declare function hostQueueEnqueueLinked(p0: usize, p1: usize): void;

export namespace queue {
  export function enqueue(job: NewJob): Result<string | null, EnqueueError> {
    const at = lend(120);
    storeNewJob(at, job);
    const answer = at + 96;
    hostQueueEnqueue(at, answer);
    const result = load<bool>(answer)
      ? new Result<string | null, EnqueueError>(null, liftEnqueueError(answer + 8))
      : new Result<string | null, EnqueueError>(liftText(answer + 8), null);
    release();
    return result;
  }

  export function enqueueLinked(job: NewJob, links: Links): Result<string | null, LinkedError> {
    const at = lend(152);
    storeNewJob(at, job);
    storeLinks(at + 96, links);
    const answer = at + 128;
    hostQueueEnqueueLinked(at, answer);
    const result = load<bool>(answer)
      ? new Result<string | null, LinkedError>(null, liftLinkedError(answer + 8))
      : new Result<string | null, LinkedError>(liftText(answer + 8), null);
    release();
    return result;
  }
}

@external("gristmill:job/log@0.1.0", "emit")
declare function hostLogEmit(p0: u32, p1: usize, p2: usize, p3: usize, p4: usize): void;

@external("gristmill:job/log@0.1.0", "enabled")
declare function hostLogEnabled(p0: u32): bool;

export namespace log {
  export function emit(level: Level, message: string, fields: Pairs): void {
    const at = lend(20);
    storeText(at + 4, message);
    storeList<string[]>(at + 12, fields, 16, storePair);
    hostLogEmit(level, load<usize>(at, 4), load<usize>(at, 8), load<usize>(at, 12), load<usize>(at, 16));
    release();
  }

  export function enabled(level: Level): bool {
    return hostLogEnabled(level);
  }
}

@external("gristmill:job/config@0.1.0", "get")
declare function hostConfigGet(p0: usize, p1: usize, p2: usize): void;

@external("gristmill:job/config@0.1.0", "secret")
declare function hostConfigSecret(p0: usize, p1: usize, p2: usize): void;

export namespace config {
  export function get(name: string): string | null {
    const at = lend(20);
    storeText(at, name);
    const answer = at + 8;
    hostConfigGet(load<usize>(at), load<usize>(at, 4), answer);
    const result = load<bool>(answer) ? liftText(answer + 4) : null;
    release();
    return result;
  }

  export function secret(name: string): Uint8Array | null {
    const at = lend(20);
    storeText(at, name);
    const answer = at + 8;
    hostConfigSecret(load<usize>(at), load<usize>(at, 4), answer);
    const result = load<bool>(answer) ? liftBytes(answer + 4) : null;
    release();
    return result;
  }
}

@external("gristmill:job/http@0.1.0", "send")
declare function hostHttpSend(p0: usize, p1: usize, p2: usize, p3: usize, p4: usize, p5: usize, p6: u32, p7: usize, p8: usize, p9: u32, p10: u64, p11: u32, p12: usize): void;

export namespace http {
  export function send(request: Request): Result<Response | null, HttpError> {
    const at = lend(104);
    storeRequest(at, request);
    const answer = at + 64;
    hostHttpSend(
      load<usize>(at),
      load<usize>(at, 4),
      load<usize>(at, 8),
      load<usize>(at, 12),
      load<usize>(at, 16),
      load<usize>(at, 20),
      load<bool>(at, 24),
      load<usize>(at, 28),
      load<usize>(at, 32),
      load<bool>(at, 40),
      load<u64>(at, 48),
      load<u32>(at, 56),
      answer,
    );
    const result = load<bool>(answer)
      ? new Result<Response | null, HttpError>(null, liftHttpError(answer + 8))
      : new Result<Response | null, HttpError>(liftResponse(answer + 8), null);
    release();
    return result;
  }
}

@external("gristmill:job/state@0.1.0", "get")
declare function hostStateGet(p0: usize): void;

@external("gristmill:job/state@0.1.0", "set")
declare function hostStateSet(p0: u32, p1: usize, p2: usize, p3: usize): void;

export namespace state {
  export function get(): Result<Uint8Array | null, StateError> {
    const answer = lend(24);
    hostStateGet(answer);
    const result = load<bool>(answer)
      ? new Result<Uint8Array | null, StateError>(null, liftStateError(answer + 8))
      : new Result<Uint8Array | null, StateError>(load<bool>(answer, 8) ? liftBytes(answer + 12) : null, null);
    release();
    return result;
  }

  export function set(value: Uint8Array | null): StateError | null {
    const at = lend(40);
    store<bool>(at, value !== null);
    if (value !== null) storeBytes(at + 4, value);
    const answer = at + 16;
    hostStateSet(load<bool>(at), load<usize>(at, 4), load<usize>(at, 8), answer);
    const result = load<bool>(answer) ? liftStateError(answer + 8) : null;
    release();
    return result;
  }
}

export namespace handler {
  export function handle(at: usize, handle: (value: Job) => Result<Outcome | null, Failure>): usize {
    const value = liftJob(at);
    release();
    const result = handle(value);
    const answer = lend(72);
    const err = result.err;
    store<bool>(answer, err !== null);
    if (err !== null) storeFailure(answer + 8, err);
    else storeOutcome(answer + 8, result.ok!);
    return answer;
  }
}

export namespace selfTest {
  export function check(check: () => string | null): usize {
    const result = check();
    const answer = lend(12);
    const err = result;
    store<bool>(answer, err !== null);
    if (err !== null) storeText(answer + 4, err);
    return answer;
  }
}

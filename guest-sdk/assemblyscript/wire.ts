// The contract of wit/job.wit by hand: the component model's canonical ABI. In memory a string or list is its address and
// its length, an option is a byte that says whether there is a value and then the value, a record is its fields in turn.
// What is handed over lies outside the collector's reach, and is freed by `release`.

import { Answer, Ending, Job, Kind, NewJob, Pairs, Payload, Request, Response, State, reject, retry } from "./index";

@external("gristmill:job/context@0.1.0", "now")
export declare function now(): u64;

@external("gristmill:job/context@0.1.0", "fuel-remaining")
export declare function fuelRemaining(): u64;

@external("gristmill:job/context@0.1.0", "is-cancelled")
export declare function isCancelled(): bool;

@external("gristmill:job/context@0.1.0", "checkpoint")
declare function hostCheckpoint(state: usize, size: usize, answer: usize): void;

@external("gristmill:job/context@0.1.0", "progress")
declare function hostProgress(basisPoints: u32, some: bool, note: usize, size: usize): void;

@external("gristmill:job/queue@0.1.0", "enqueue-linked")
declare function hostEnqueue(job: usize, answer: usize): void;

@external("gristmill:job/state@0.1.0", "get")
declare function hostState(answer: usize): void;

@external("gristmill:job/state@0.1.0", "set")
declare function hostSetState(some: bool, state: usize, size: usize, answer: usize): void;

@external("gristmill:job/http@0.1.0", "send")
declare function hostSend(
  method: usize, methodSize: usize, url: usize, urlSize: usize, headers: usize, count: usize,
  hasBody: bool, body: usize, bodySize: usize, hasTimeout: bool, timeout: u64, redirects: u32, answer: usize,
): void;

@external("gristmill:job/log@0.1.0", "emit")
declare function hostLog(level: u32, message: usize, size: usize, fields: usize, count: usize): void;

@external("gristmill:job/log@0.1.0", "enabled")
export declare function logEnabled(level: u32): bool;

@external("gristmill:job/config@0.1.0", "get")
declare function hostConfig(name: usize, size: usize, answer: usize): void;

@external("gristmill:job/config@0.1.0", "secret")
declare function hostSecret(name: usize, size: usize, answer: usize): void;

// ---- Memory ----

const lent: usize[] = [];

/** Memory that both sides know; zeroed, until `release`. */
export function lend(size: usize): usize {
  const at = heap.alloc(size);
  memory.fill(at, 0, size);
  lent.push(at);
  return at;
}

/** Frees all that was lent, by either side. */
export function release(): void {
  for (let i = 0; i < lent.length; i++) heap.free(lent[i]);
  lent.length = 0;
}

/** Where the host puts what it hands over. It calls nothing of ours while we are in here, nor may we call it. */
export function realloc(old: usize, oldSize: usize, size: usize): usize {
  const at = lend(size);
  memory.copy(at, old, min(oldSize, size));
  return at;
}

// ---- Reading ----

function text(at: usize): string {
  return String.UTF8.decodeUnsafe(load<usize>(at), load<usize>(at, 4));
}

function optionText(at: usize): string | null {
  return load<bool>(at) ? text(at + 4) : null;
}

function bytes(at: usize): Uint8Array {
  const data = new Uint8Array(load<i32>(at, 4));
  memory.copy(data.dataStart, load<usize>(at), data.length);
  return data;
}

function optionBytes(at: usize): Uint8Array | null {
  return load<bool>(at) ? bytes(at + 4) : null;
}

function pairs(at: usize): Pairs {
  const list: Pairs = [];
  const begin = load<usize>(at);
  const end = begin + load<usize>(at, 4) * 16;
  for (let pair = begin; pair < end; pair += 16) list.push([text(pair), text(pair + 8)]);
  return list;
}

export function readJob(at: usize): Job {
  const job = new Job();
  job.id = text(at);
  job.tenant = text(at + 8);
  job.topic = text(at + 16);
  job.body = new Payload(bytes(at + 24), optionText(at + 32));
  job.metadata = pairs(at + 44);
  job.key = optionText(at + 52);
  job.attempt = load<u32>(at, 64);
  job.maxAttempts = load<u32>(at, 68);
  job.enqueuedAt = load<u64>(at, 72);
  job.dueAt = load<u64>(at, 80);
  job.deadline = load<u64>(at, 88);
  job.checkpoint = optionBytes(at + 96);
  return job;
}

// ---- Writing ----

function storeText(at: usize, text: string): void {
  const size = String.UTF8.byteLength(text);
  const copy = lend(size);
  String.UTF8.encodeUnsafe(changetype<usize>(text), text.length, copy);
  store<usize>(at, copy);
  store<usize>(at, size, 4);
}

function storeOptionText(at: usize, text: string | null): void {
  if (text === null) return;
  store<bool>(at, true);
  storeText(at + 4, text);
}

function storeOptionU64(at: usize, some: bool, value: u64): void {
  store<bool>(at, some);
  store<u64>(at, value, 8);
}

function storeBytes(at: usize, data: Uint8Array): void {
  const copy = lend(data.length);
  memory.copy(copy, data.dataStart, data.length);
  store<usize>(at, copy);
  store<usize>(at, data.length, 4);
}

function storePayload(at: usize, payload: Payload): void {
  storeBytes(at, payload.data);
  storeOptionText(at + 8, payload.contentType);
}

function storeOptionPayload(at: usize, payload: Payload | null): void {
  if (payload === null) return;
  store<bool>(at, true);
  storePayload(at + 4, payload);
}

function storePairs(at: usize, pairs: Pairs): void {
  const list = lend(pairs.length * 16);
  for (let i = 0; i < pairs.length; i++) {
    storeText(list + i * 16, pairs[i][0]);
    storeText(list + i * 16 + 8, pairs[i][1]);
  }
  store<usize>(at, list);
  store<usize>(at, pairs.length, 4);
}

/** `result<outcome, failure>`: two tags, each in a place of 8 bytes, and then the case. */
export function writeEnding(ending: Ending): usize {
  const at = lend(72);
  const failed = ending.kind == Kind.Retry || ending.kind == Kind.Reject;
  store<bool>(at, failed);
  store<bool>(at, ending.kind == Kind.Snooze || ending.kind == Kind.Reject, 8);
  if (ending.kind == Kind.Complete) storeOptionPayload(at + 16, ending.payload);
  if (ending.kind == Kind.Snooze) store<i64>(at, ending.wait, 16);
  if (failed) {
    storeText(at + 16, ending.code);
    storeText(at + 24, ending.message);
    storeOptionPayload(at + 32, ending.payload);
  }
  if (ending.kind == Kind.Retry) storeOptionU64(at + 56, ending.wait >= 0, ending.wait);
  return at;
}

// ---- Calls ----

export function log(level: u32, message: string, fields: Pairs): void {
  const at = lend(16);
  storeText(at, message);
  storePairs(at + 8, fields);
  hostLog(level, load<usize>(at), load<usize>(at, 4), load<usize>(at, 8), load<usize>(at, 12));
  release();
}

const REFUSALS: string[] = [
  "the manifest does not let this topic enqueue to that one",
  "the body is larger than that topic accepts",
  "one attempt may not enqueue so many jobs",
  "there is no such topic",
];
const UNKNOWN_TOPIC: u8 = 3;

export function enqueue(job: NewJob): Answer {
  const at = lend(124);
  storeText(at, job.topic);
  storePayload(at + 8, job.body);
  storePairs(at + 28, job.metadata);
  storeOptionText(at + 36, job.key);
  storeOptionU64(at + 48, job.notBefore > 0, job.notBefore);
  storeOptionText(at + 64, job.unique);
  store<u8>(at, <u8>job.priority, 76);
  storeOptionU64(at + 80, job.uniqueWindow > 0, job.uniqueWindow);
  const after = lend(job.afterJobs.length * 8);
  for (let i = 0; i < job.afterJobs.length; i++) storeText(after + i * 8, job.afterJobs[i]);
  store<usize>(at, after, 96);
  store<usize>(at, job.afterJobs.length, 100);
  store<bool>(at, job.runAfterFailed, 104);
  storeOptionText(at + 108, job.batch);
  store<bool>(at, job.open, 120);
  const answer = lend(24);
  hostEnqueue(at, answer);
  const result = load<bool>(answer) ? new Answer("", enqueueFailure(answer + 8)) : new Answer(text(answer + 8));
  release();
  return result;
}

function enqueueFailure(at: usize): Ending {
  const kind = load<u8>(at);
  const why = kind < 4 ? REFUSALS[kind] : `the job has invalid links: ${text(at + 8)}`;
  return kind == UNKNOWN_TOPIC ? retry("enqueue-failed", why) : reject("enqueue-failed", why);
}

/** Its answer is a `result<response, http-error>`. */
export function send(request: Request): Response {
  const at = lend(32);
  storeText(at, request.method);
  storeText(at + 8, request.url);
  storePairs(at + 16, request.headers);
  const body = request.body;
  if (body !== null) storeBytes(at + 24, body);
  const answer = lend(40);
  hostSend(
    load<usize>(at), load<usize>(at, 4), load<usize>(at, 8), load<usize>(at, 12), load<usize>(at, 16), load<usize>(at, 20),
    body !== null, load<usize>(at, 24), load<usize>(at, 28), request.timeout > 0, request.timeout, request.redirects, answer,
  );
  const response = new Response(load<bool>(answer) ? requestFailure(answer + 8) : null);
  if (response.failure === null) {
    response.status = load<u16>(answer, 8);
    response.headers = pairs(answer + 12);
    response.body = bytes(answer + 20);
    response.url = text(answer + 28);
  }
  release();
  return response;
}

function requestFailure(at: usize): Ending {
  const kind = load<u8>(at);
  if (kind == 0) return reject("http-denied", `the request is not granted: ${text(at + 8)}`);
  if (kind == 1) return reject("http-invalid", `the request cannot be sent: ${text(at + 8)}`);
  if (kind == 2) return retry("http-timeout", "no answer in time");
  if (kind == 3) return reject("http-too-large", `the request or its answer is larger than ${load<u64>(at, 8)} bytes`);
  if (kind == 4) return reject("http-too-many", `one attempt may send no more than ${load<u32>(at, 8)} requests`);
  return retry("http-unreachable", `nothing answers: ${text(at + 8)}`);
}

export function checkpoint(state: Uint8Array): Answer {
  const answer = lend(24);
  hostCheckpoint(state.dataStart, state.length, answer);
  let failure: Ending | null = null;
  if (load<bool>(answer)) {
    failure = load<bool>(answer, 8)
      ? retry("checkpoint-failed", text(answer + 16))
      : reject("checkpoint-failed", `the state is larger than ${load<u64>(answer, 16)} bytes`);
  }
  release();
  return new Answer("", failure);
}

export function state(): State {
  const answer = lend(24);
  hostState(answer);
  const refused = stateRefused(answer);
  const state = new State(refused ? null : optionBytes(answer + 8), refused);
  release();
  return state;
}

export function setState(value: Uint8Array | null): Ending | null {
  const answer = lend(24);
  if (value === null) hostSetState(false, 0, 0, answer);
  else hostSetState(true, value.dataStart, value.length, answer);
  const refused = stateRefused(answer);
  release();
  return refused;
}

function stateRefused(answer: usize): Ending | null {
  if (!load<bool>(answer)) return null;
  switch (load<u8>(answer, 8)) {
    case 0:
      return reject("no-key", "the job has no key, so it has no state: push it with one");
    case 1:
      return reject("state-too-large", `the state is larger than ${load<u64>(answer, 16)} bytes`);
    default:
      return retry("state-unavailable", `the state cannot be read now: ${text(answer + 16)}`);
  }
}

export function progress(basisPoints: u32, note: string | null): void {
  const at = lend(12);
  storeOptionText(at, note);
  hostProgress(basisPoints, load<bool>(at), load<usize>(at, 4), load<usize>(at, 8));
  release();
}

export function config(name: string): string | null {
  const at = lend(20);
  storeText(at + 12, name);
  hostConfig(load<usize>(at, 12), load<usize>(at, 16), at);
  const value = optionText(at);
  release();
  return value;
}

export function secret(name: string): Uint8Array | null {
  const at = lend(20);
  storeText(at + 12, name);
  hostSecret(load<usize>(at, 12), load<usize>(at, 16), at);
  const value = optionBytes(at);
  release();
  return value;
}

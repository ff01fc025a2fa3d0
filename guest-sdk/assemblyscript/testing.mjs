// Stands for the runner: runs one job in a module, under Node, and says what it did.

import { readFileSync } from "node:fs";

const module = new WebAssembly.Module(readFileSync("build/test.wasm"));
const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });

const REFUSED = ["denied", "too-large", "too-many", "unknown-topic", "invalid-links"];
const UNANSWERED = ["denied", "invalid", "timeout", "too-large", "too-many", "unreachable"];

/**
 * `job`: body (text or bytes), attempt, key, checkpoint. `grants`: config, secrets, now, fuel, cancelled, state (of the key), stateLimit;
 * `enqueueError`, such as "denied" or "unknown-topic", and `checkpointError`, "too-large" or "unavailable"; `answers` to the first requests and
 * `answer` to all others: status, headers and body, or an `error` such as "timeout". Without an answer, none is granted.
 */
export function run(job, grants = {}) {
  const did = { logs: [], enqueued: [], requests: [], progress: [], checkpoint: null, state: grants.state };
  let exports;
  const memory = () => new DataView(exports.memory.buffer);
  const word = (at) => memory().getUint32(at, true);
  const bytes = (at) => new Uint8Array(exports.memory.buffer.slice(word(at), word(at) + word(at + 4)));
  const text = (at) => decoder.decode(bytes(at));
  const option = (at, read) => (memory().getUint8(at) ? read(at) : null);
  const optionText = (at) => option(at, () => text(at + 4));
  const optionU64 = (at) => option(at, () => Number(memory().getBigUint64(at + 8, true)));
  const textOf = (at, size) => decoder.decode(new Uint8Array(exports.memory.buffer.slice(at, at + size)));

  const give = (at, value) => {
    const data = typeof value === "string" ? encoder.encode(value) : value;
    const copy = exports.cabi_realloc(0, 0, 1, data.length);
    new Uint8Array(exports.memory.buffer).set(data, copy);
    memory().setUint32(at, copy, true);
    memory().setUint32(at + 4, data.length, true);
  };
  const giveOption = (at, value) => {
    memory().setUint8(at, value === undefined ? 0 : 1);
    if (value !== undefined) give(at + 4, value);
  };

  const refuse = (answer, kind, limit = 0) => {
    memory().setUint8(answer, 1);
    memory().setUint8(answer + 8, kind);
    memory().setBigUint64(answer + 16, BigInt(limit), true);
  };

  const pairsOf = (list, count) => Array.from({ length: count }, (_, i) => [text(list + 16 * i), text(list + 16 * i + 8)]);

  const now = grants.now ?? 1_767_225_600_000;
  const host = {
    context: {
      now: () => BigInt(now),
      "fuel-remaining": () => BigInt(grants.fuel ?? 1_000_000_000_000),
      "is-cancelled": () => Number(grants.cancelled ?? false),
      checkpoint: (at, size, answer) => {
        memory().setUint8(answer, grants.checkpointError ? 1 : 0);
        if (!grants.checkpointError) return void (did.checkpoint = textOf(at, size));
        refuse(answer, grants.checkpointError === "unavailable" ? 1 : 0);
        if (grants.checkpointError === "unavailable") give(answer + 16, "the test host was told to refuse");
      },
      progress: (basisPoints, some, at, size) => did.progress.push({ basisPoints, note: some ? textOf(at, size) : null }),
    },
    state: {
      get: (answer) => {
        if (job.key === undefined) refuse(answer, 0);
        else giveOption(answer + 8, did.state);
      },
      set: (some, at, size, answer) => {
        const limit = grants.stateLimit ?? 65_536;
        if (job.key === undefined) refuse(answer, 0);
        else if (size > limit) refuse(answer, 1, limit);
        else did.state = some ? textOf(at, size) : undefined;
      },
    },
    config: {
      get: (name, size, answer) => giveOption(answer, grants.config?.[textOf(name, size)]),
      secret: (name, size, answer) => giveOption(answer, grants.secrets?.[textOf(name, size)]),
    },
    log: {
      enabled: () => 1,
      emit: (level, message, size, fields, count) => {
        did.logs.push({ level, message: textOf(message, size), fields: pairsOf(fields, count) });
      },
    },
    http: {
      send: (method, methodSize, url, urlSize, headers, count, hasBody, body, bodySize, hasTimeout, timeout, redirects, answer) => {
        did.requests.push({
          method: textOf(method, methodSize),
          url: textOf(url, urlSize),
          headers: pairsOf(headers, count),
          body: hasBody ? textOf(body, bodySize) : null,
          timeout: hasTimeout ? Number(timeout) : null,
          redirects,
        });
        const nothing = { error: "denied" };
        const { error, status = 200, headers: given = [], body: said = "" } = grants.answers?.[did.requests.length - 1] ?? grants.answer ?? nothing;
        memory().setUint8(answer, error ? 1 : 0);
        if (error) {
          refuse(answer, UNANSWERED.indexOf(error), 1);
          if (["denied", "invalid", "unreachable"].includes(error)) give(answer + 16, "the test host answers no requests");
          return;
        }
        const list = exports.cabi_realloc(0, 0, 4, 16 * given.length);
        given.flat().forEach((part, i) => give(list + 8 * i, part));
        memory().setUint16(answer + 8, status, true);
        memory().setUint32(answer + 12, list, true);
        memory().setUint32(answer + 16, given.length, true);
        give(answer + 20, said);
        give(answer + 28, textOf(url, urlSize));
      },
    },
    queue: {
      "enqueue-linked": (job, answer) => {
        memory().setUint8(answer, grants.enqueueError ? 1 : 0);
        if (grants.enqueueError) {
          refuse(answer, REFUSED.indexOf(grants.enqueueError));
          if (grants.enqueueError === "invalid-links") give(answer + 16, "the test host was told to refuse");
          return;
        }
        did.enqueued.push({
          topic: text(job),
          body: text(job + 8),
          contentType: optionText(job + 16),
          metadata: word(job + 32),
          key: optionText(job + 36),
          notBefore: optionU64(job + 48),
          unique: optionText(job + 64),
          priority: memory().getUint8(job + 76),
          uniqueWindow: optionU64(job + 80),
          afterJobs: Array.from({ length: word(job + 100) }, (_, i) => text(word(job + 96) + 8 * i)),
          runAfterFailed: memory().getUint8(job + 104) === 1,
          batch: optionText(job + 108),
          open: memory().getUint8(job + 120) === 1,
        });
        give(answer + 8, `01K1${String(did.enqueued.length).padStart(22, "0")}`);
      },
    },
  };
  // What a test does not need here is not there: a handler that calls it fails with its name.
  const missing = (name) => () => {
    throw new Error(`the test host has no ${name}`);
  };
  const imports = {};
  for (const { module: path, name } of WebAssembly.Module.imports(module)) {
    const part = path.match(/^gristmill:job\/(.*)@/)?.[1];
    (imports[path] ??= {})[name] = host[part]?.[name] ?? missing(`${path} ${name}`);
  }
  exports = new WebAssembly.Instance(module, imports).exports;

  const at = exports.cabi_realloc(0, 0, 8, 112);
  new Uint8Array(exports.memory.buffer, at, 112).fill(0);
  for (const [offset, value] of [[0, "01K00000000000000000000000"], [8, "default"], [16, "test"], [24, job.body]]) {
    give(at + offset, value);
  }
  giveOption(at + 52, job.key);
  memory().setUint32(at + 64, job.attempt ?? 1, true);
  memory().setUint32(at + 68, 5, true);
  for (const [offset, time] of [[72, now], [80, now], [88, now + 30_000]]) memory().setBigUint64(at + offset, BigInt(time), true);
  giveOption(at + 96, job.checkpoint);
  const ending = exports["gristmill:job/handler@0.1.0#handle"](at);
  const tags = [memory().getUint8(ending), memory().getUint8(ending + 8)].join();
  if (tags === "0,0" && memory().getUint8(ending + 16)) {
    did.result = text(ending + 20);
    did.contentType = optionText(ending + 28);
  } else if (tags === "0,1") {
    did.snooze = Number(memory().getBigUint64(ending + 16, true));
  } else if (tags !== "0,0") {
    did.failure = { rejected: tags === "1,1", code: text(ending + 16), message: text(ending + 24) };
    if (!did.failure.rejected) did.failure.after = optionU64(ending + 56);
  }
  if (tags !== "0,0") did.state = grants.state; // only a job that completes leaves one
  exports["cabi_post_gristmill:job/handler@0.1.0#handle"](ending);
  return did;
}

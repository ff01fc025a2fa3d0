// What the tests of all languages ask for, by the body: a batch of jobs, a request over HTTP, the state of a key and bad ends. A body of JSON
// asks for what a handler may do beside the contract: `tests/it/languages/javascript.rs` says what each of these comes to.
import 'gristmill-guest/clock';
import { checkpoint, config, enqueue, handle, isCancelled, log, now, progress, Reject, Retry, state } from 'gristmill-guest';

const sleep = (millis) => new Promise((done) => setTimeout(done, millis));
const atBuildTime = (async () => {
  await null;
  return 'made at build time';
})();

async function* count(upTo) {
  for (let number = 0; number < upTo; number++) {
    await sleep(1);
    yield number;
  }
}

class Tracked extends Promise {
  get isTracked() {
    return true;
  }
}

const modes = {
  async order() {
    const seen = ['sync'];
    const note = (what) => () => seen.push(what);
    setTimeout(note('first of two'), 0);
    clearTimeout(setTimeout(note('cleared'), 0));
    setTimeout(note('second of two'), 0);
    setImmediate(note('immediate'));
    queueMicrotask(note('microtask'));
    Promise.resolve().then(note('reaction'));
    await null;
    seen.push('awaited');
    await new Promise((done) => {
      let times = 0;
      const interval = setInterval(() => {
        seen.push(`interval ${++times}`);
        if (times === 3) done(clearInterval(interval));
      }, 10);
    });
    await new Promise((done) => {
      setTimeout(() => done(seen.push('later')), 300);
      setTimeout(note('sooner'), 0);
    });
    setTimeout(() => { throw new Error('a timer that is left does nothing'); }, 60_000);
    return seen;
  },

  async promises() {
    const numbers = [];
    for await (const number of count(3)) numbers.push(number);
    const thenable = { then: (resolve) => resolve('thenable') };
    const { promise, resolve } = Promise.withResolvers();
    resolve(Promise.resolve('nested'));
    const tracked = new Tracked((done) => done(1)).then((one) => one + 1);
    const finalised = [];
    return [
      numbers, await thenable, await promise, await atBuildTime,
      tracked.isTracked, tracked instanceof Promise, await tracked,
      await Promise.all([1, sleep(1).then(() => 2), thenable]),
      await Promise.allSettled([Promise.reject(1), 2]),
      await Promise.any([Promise.reject(1), sleep(1).then(() => 'any')]),
      await Promise.race([sleep(60_000), 'race']),
      await Promise.reject('no').catch((why) => `caught ${why}`).finally(() => finalised.push('finally')), finalised,
      await Promise.try((a) => a * 2, 21),
      await Array.fromAsync(count(2), (number) => number * 10),
      String(await Promise.any([]).catch((error) => error)),
      Object.prototype.toString.call(promise), Promise.name, (async () => {})() instanceof Promise,
      typeof (await import('./gristmill-guest/web/url.js')).URL,
    ];
  },

  async requests({ server }) {
    const url = new URL('/echo', server);
    url.searchParams.set('q', 'ü b');
    const posted = await fetch(`${url}#part`, {
      method: 'post', headers: { 'X-Kept': '1', 'content-length': '99', 'content-type': 'application/json' }, body: JSON.stringify({ a: 1 }),
    });
    const form = await fetch(new Request(url, { method: 'PUT', body: new URLSearchParams({ a: 'b c' }) }));
    const bytes = await (await fetch(url)).arrayBuffer();
    return [
      posted.status, posted.ok, posted.url === String(url), posted.redirected, posted.headers.get('X-A'), await posted.clone().text(),
      (await posted.text()).length, posted.bodyUsed, await posted.text().catch((error) => error.constructor.name),
      await form.text(), [bytes.constructor.name, bytes.byteLength],
      await (await fetch(`${server}/json`)).json(),
      await fetch(`${server}/missing`).then(({ ok, status }) => [ok, status]),
      await fetch(`${server}/moved`).then(({ redirected, url }) => [redirected, new URL(url).pathname]),
      await fetch(`${server}/moved`, { redirect: 'manual' }).then(({ status, headers }) => [status, headers.get('location')]),
      await fetch(`${server}/moved`, { redirect: 'error' }).catch((error) => error.constructor.name),
      await fetch('/relative').catch(String),
      await fetch(server, { body: 'x' }).catch(String),
      await fetch(server, { signal: AbortSignal.abort() }).catch(({ name }) => name),
    ];
  },

  async signals({ server }) {
    const controller = new AbortController();
    const heard = [];
    controller.signal.addEventListener('abort', ({ type }) => heard.push(type), { once: true });
    controller.signal.onabort = () => heard.push('on');
    controller.abort('enough');
    controller.abort('again');
    const held = await fetch(`${server}/held`, { signal: AbortSignal.timeout(50) }).catch(({ name }) => name);
    return [heard, controller.signal.reason, AbortSignal.any([controller.signal]).aborted, held];
  },

  async web() {
    const loop = { date: new Date(0), map: new Map([[1, new Set([2])]]), bytes: Uint8Array.of(1, 2), list: [undefined, { deep: true }] };
    loop.self = loop;
    const copy = structuredClone(loop);
    let refused;
    try {
      structuredClone({ call() {} });
    } catch ({ name }) {
      refused = name;
    }
    return [
      copy !== loop, copy.self === copy, copy.date.getTime(), copy.map.get(1).has(2), [...copy.bytes], copy.list[1].deep, refused,
      atob(btoa('ÿ')), new TextDecoder().decode(new TextEncoder().encode('ü€😀')), typeof globalThis.structuredClone,
      new URL('../b?x#y', 'https://EXAMPLE.org:443/a/c/').href, URL.canParse('nonsense'), process.env.NODE_ENV,
    ];
  },

  async random() {
    const uuids = [crypto.randomUUID(), globalThis.crypto.randomUUID()];
    const numbers = crypto.getRandomValues(new Uint32Array(8));
    return [uuids.every((uuid) => /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(uuid)), uuids[0] !== uuids[1], new Set(numbers).size > 1];
  },

  // A handler that is not async, and leaves a promise behind.
  left() {
    void (async () => {
      await null;
      log.info('after the handler');
    })();
    return [];
  },

  async thrown() {
    await null;
    await deep();
  },

  unhandled() {
    void deep();
    return [];
  },

  async never() {
    await new Promise(() => {});
  },

  async broken({ server }) {
    await (await fetch(`${server}/broken`)).json();
  },

  denied: async () => fetch('http://example.org/'),
  caught: async () => fetch('http://example.org/').catch((error) => [error instanceof TypeError, error.message]),
  unreachable: async () => fetch('http://127.0.0.1:1/'),
  async many({ server }) {
    for (;;) await fetch(`${server}/json`);
  },
};

async function deep() {
  await null;
  throw new RangeError('deep down');
}

function link(job, body) {
  const { topic } = job;
  switch (body) {
    case 'fan': {
      const batch = enqueue({ topic, body: 'gather', afterJobs: [job.id], afterFailed: 'run', open: true });
      const bad = enqueue({ topic, body: 'bad', batch });
      enqueue({ topic, body: 'good', afterJobs: [bad], batch });
      return batch;
    }
    case 'gather':
      return job.meta('predecessors');
    case 'wrong':
      return enqueue({ topic, batch: 'no id!' });
    default:
      throw new Reject('bad', 'as requested');
  }
}

// Sends the request that the body names, such as `GET http://…`; the result is what came back.
async function request(body) {
  const [method, url] = body.split(' ');
  const more = { POST: { method, headers: [['x-kept', '1'], ['x-kept', '2']], body: 'hello' }, SLOW: { signal: AbortSignal.timeout(50) } };
  const answer = await fetch(url, more[method]);
  return `${answer.status} ${answer.headers.get('X-A') ?? ''} ${await answer.text()}`;
}

// Asks all that a recording answers, and fails with what it was answered.
async function recall(job, url) {
  const began = Date.now();
  const seen = state.json() ?? 0;
  state.setJson(seen + 1);
  log.info('asking', { flour: config.get('flour'), key: config.secret('key')?.length, at: new Date().toISOString(), now: now() });
  const answer = await fetch(url, { method: 'POST', headers: { 'X-Seen': String(seen) }, body: 'hello', signal: AbortSignal.timeout(20_000) });
  const book = await answer.text();
  console.log(answer.status, book);
  await sleep(2);
  checkpoint('asked');
  const id = enqueue({ topic: job.topic, body: 'later', after: 60_000, unique: 'ann' });
  log.info('asked', { id, isCancelled: isCancelled() });
  throw new RangeError(`${began}: ${book}`);
}

const recurse = (calls) => recurse(calls + 1) + 1;

// Counts the jobs of a key in its state.
function keep(job, body) {
  if (body === 'progress') return progress(0.5, 'half');
  if (body === 'crash') throw new Error('on purpose');
  if (body === 'deep') return String(recurse(0));
  for (const all = []; body === 'hoard'; ) all.push(new Uint8Array(1 << 20));
  if (body === 'large') checkpoint('x'.repeat(2000));
  const seen = (state.json() ?? 0) + 1;
  state.setJson(seen);
  if (body === 'fail' && job.attempt === 1) throw new Retry('later', 'after the state was set');
  return String(seen);
}

export const handler = handle((job) => {
  const body = job.text();
  if (body.startsWith('{')) {
    const { mode, ...given } = job.json();
    return modes[mode](given);
  }
  if (body.startsWith('recall ')) return recall(job, body.slice(7));
  if (['fan', 'gather', 'wrong', 'bad', 'good'].includes(body)) return link(job, body);
  return body.includes(' ') ? request(body) : keep(job, body);
});

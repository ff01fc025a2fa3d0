/**
 * Promises, timers, and the loop that runs them inside one attempt.
 *
 * Nothing in a component runs the reactions of the engine's own promises. So the build turns `async` functions into
 * generators, and these promises, which behave as the language has it, replace the engine's.
 */
const EnginePromise = globalThis.Promise;

/** What the loop needs of the runner; `host.js` sets it. */
export const runner = {
  /** False while the component is built. */
  running: false,
  /** Milliseconds since the Unix epoch. @type {() => number} */
  now: Date.now,
  /** Waits so many milliseconds. @param {number} millis */
  wait(millis) {
    throw new Error(`a timer of ${millis} ms is not waited for while the component is built`);
  },
};

/** Reactions in line; those before `next` have run. @type {(() => void)[]} */
let queue = [];
let next = 0;
/** Rejected promises that nothing handles, with their reasons. @type {Map<Promise, unknown>} */
const unhandled = new Map();
/** @type {Map<number, { due: number, every: number | null, call: () => void }>} */
const timers = new Map();
let lastTimer = 0;

/** Puts a reaction in line. @param {() => void} reaction */
function enqueue(reaction) {
  // Modules may await at their top level: while the component is built, the engine runs its own queue.
  if (!runner.running && next === queue.length) EnginePromise.resolve().then(drain);
  queue.push(reaction);
}

/** Runs all reactions. @throws what a promise was rejected with that nothing handles */
export function drain() {
  while (next < queue.length) {
    if (next === 1024) [queue, next] = [queue.slice(next), 0];
    queue[next++]();
  }
  queue = [];
  next = 0;
  if (unhandled.size === 0) return;
  for (const reason of unhandled.values()) {
    unhandled.clear();
    throw reason;
  }
}

/**
 * Runs reactions and timers until `value`, which may be a promise, is settled, and all reactions after that. Timers that are left do
 * nothing.
 *
 * @param {unknown} value @throws what it was rejected with, or another promise that nothing handles
 */
export function finish(value) {
  if (!(value instanceof Promise)) {
    drain();
    return value;
  }
  let settled;
  value.then(
    (result) => (settled = () => result),
    (reason) => (settled = () => { throw reason; }),
  );
  for (drain(); !settled; drain()) {
    if (timers.size === 0) throw new Error("the handler's promise never settled: nothing is left to run");
    runTimer();
  }
  return settled();
}

/** Drops what an earlier attempt in this instance left. */
export function reset() {
  queue = [];
  next = 0;
  unhandled.clear();
  timers.clear();
}

/** Waits for the timer that is due first, and runs it. */
function runTimer() {
  const [id, timer] = [...timers].reduce((first, other) => (other[1].due < first[1].due ? other : first));
  const wait = timer.due - runner.now();
  if (wait > 0) runner.wait(wait);
  if (timer.every === null) timers.delete(id);
  else timer.due = runner.now() + timer.every;
  timer.call();
}

/** @param {boolean} repeats */
const timerOf = (repeats) => (callback, delay = 0, ...given) => {
  if (typeof callback !== 'function') throw new TypeError('the callback of a timer is a function');
  const millis = Math.max(Math.trunc(Number(delay)) || 0, 0);
  timers.set(++lastTimer, {
    due: runner.now() + millis,
    every: repeats ? Math.max(millis, 1) : null,
    call: () => callback(...given),
  });
  return lastTimer;
};
globalThis.setTimeout = timerOf(false);
globalThis.setInterval = timerOf(true);
globalThis.clearTimeout = globalThis.clearInterval = (id) => void timers.delete(id);
globalThis.setImmediate = (callback, ...given) => setTimeout(callback, 0, ...given);
globalThis.clearImmediate = clearTimeout;
globalThis.queueMicrotask = (callback) => {
  if (typeof callback !== 'function') throw new TypeError('a microtask is a function');
  enqueue(() => void callback());
};

class Promise {
  #state = 'pending';
  #value;
  /** @type {(() => void)[] | null} null once it is handled and settled */
  #reactions = [];
  #handled = false;

  constructor(executor) {
    if (typeof executor !== 'function') throw new TypeError('a promise is made of a function');
    const { resolve, reject } = this.#settlers();
    try {
      executor(resolve, reject);
    } catch (reason) {
      reject(reason);
    }
  }

  static name = 'Promise';

  static get [Symbol.species]() {
    return this;
  }

  /** The first call of either counts. */
  #settlers() {
    let done = false;
    const first = (act) => (value) => {
      if (done) return;
      done = true;
      act(value);
    };
    return {
      resolve: first((value) => this.#resolve(value)),
      reject: first((reason) => this.#settle('rejected', reason)),
    };
  }

  #resolve(value) {
    if (value === this) return this.#settle('rejected', new TypeError('a promise cannot be resolved with itself'));
    if (typeof value !== 'function' && (typeof value !== 'object' || value === null)) return this.#settle('fulfilled', value);
    let then;
    try {
      then = value.then;
    } catch (reason) {
      return this.#settle('rejected', reason);
    }
    if (typeof then !== 'function') return this.#settle('fulfilled', value);
    enqueue(() => {
      const { resolve, reject } = this.#settlers();
      try {
        then.call(value, resolve, reject);
      } catch (reason) {
        reject(reason);
      }
    });
  }

  #settle(state, value) {
    const reactions = this.#reactions;
    this.#state = state;
    this.#value = value;
    this.#reactions = [];
    if (state === 'rejected' && !this.#handled) unhandled.set(this, value);
    reactions.forEach(enqueue);
  }

  then(onFulfilled, onRejected) {
    const { promise, resolve, reject } = deferred(this.constructor?.[Symbol.species] ?? Promise);
    const react = () => {
      const isFulfilled = this.#state === 'fulfilled';
      const handler = isFulfilled ? onFulfilled : onRejected;
      if (typeof handler !== 'function') return (isFulfilled ? resolve : reject)(this.#value);
      try {
        resolve(handler(this.#value));
      } catch (reason) {
        reject(reason);
      }
    };
    this.#handled = true;
    unhandled.delete(this);
    if (this.#state === 'pending') this.#reactions.push(react);
    else enqueue(react);
    return promise;
  }

  catch(onRejected) {
    return this.then(undefined, onRejected);
  }

  finally(callback) {
    if (typeof callback !== 'function') return this.then(callback, callback);
    const Made = this.constructor?.[Symbol.species] ?? Promise;
    return this.then(
      (value) => Made.resolve(callback()).then(() => value),
      (reason) => Made.resolve(callback()).then(() => { throw reason; }),
    );
  }

  static withResolvers() {
    return deferred(this);
  }

  static resolve(value) {
    return value instanceof Promise && value.constructor === this ? value : new this((resolve) => resolve(value));
  }

  static reject(reason) {
    return new this((_, reject) => reject(reason));
  }

  static try(callback, ...given) {
    return new this((resolve) => resolve(callback(...given)));
  }

  static all(values) {
    return collected(this, values, (each, at, { found, done, reject }) => {
      each.then((value) => { found[at] = value; done(); }, reject);
    });
  }

  static allSettled(values) {
    return collected(this, values, (each, at, { found, done }) => {
      each.then(
        (value) => { found[at] = { status: 'fulfilled', value }; done(); },
        (reason) => { found[at] = { status: 'rejected', reason }; done(); },
      );
    });
  }

  static any(values) {
    const end = (reasons, { reject }) => reject(new AggregateError(reasons, 'all promises were rejected'));
    return collected(this, values, (each, at, { found, done, resolve }) => {
      each.then(resolve, (reason) => { found[at] = reason; done(); });
    }, end);
  }

  static race(values) {
    return new this((resolve, reject) => {
      for (const value of values) this.resolve(value).then(resolve, reject);
    });
  }
}
Object.defineProperty(Promise.prototype, Symbol.toStringTag, { value: 'Promise', configurable: true });

function deferred(Made) {
  let settlers;
  const promise = new Made((resolve, reject) => (settlers = { resolve, reject }));
  return { promise, ...settlers };
}

/** A promise of something found of each value. `watch` notes it and calls `done`; `end` settles it when all are done. */
function collected(Made, values, watch, end = (found, { resolve }) => resolve(found)) {
  return new Made((resolve, reject) => {
    const found = [];
    // One for the loop itself: a value may be done at once.
    let left = 1;
    const settlers = { resolve, reject };
    const done = () => --left === 0 && end(found, settlers);
    let at = 0;
    for (const value of values) {
      left++;
      watch(Made.resolve(value), at++, { found, done, ...settlers });
    }
    done();
  });
}

Object.defineProperty(globalThis, 'Promise', { value: Promise, writable: true, configurable: true });

// The engine's own returns one of its own promises, which would never settle.
Array.fromAsync = async (items, change = (item) => item) => {
  const found = [];
  for await (const item of items[Symbol.asyncIterator] || items[Symbol.iterator] ? items : Array.from(items)) {
    found.push(await change(item, found.length));
  }
  return found;
};

/** Events and signals that end requests, as the DOM Standard has them, without a tree of targets. */
export class Event {
  /** @param {string} type */
  constructor(type, { cancelable = false } = {}) {
    Object.assign(this, { type: String(type), cancelable, defaultPrevented: false, target: null, timeStamp: Date.now() });
  }

  preventDefault() {
    this.defaultPrevented = this.cancelable;
  }

  stopImmediatePropagation() {
    this.isStopped = true;
  }
}

export class EventTarget {
  /** @type {{ type: string, listener: Function | { handleEvent: Function }, once: boolean }[]} */
  #listeners = [];

  addEventListener(type, listener, options = {}) {
    if (!listener || options.signal?.aborted || this.#listeners.some((it) => it.type === type && it.listener === listener)) return;
    this.#listeners.push({ type, listener, once: options.once === true });
    options.signal?.addEventListener('abort', () => this.removeEventListener(type, listener));
  }

  removeEventListener(type, listener) {
    this.#listeners = this.#listeners.filter((it) => it.type !== type || it.listener !== listener);
  }

  dispatchEvent(event) {
    event.target = this;
    this[`on${event.type}`]?.(event);
    for (const { type, listener, once } of [...this.#listeners]) {
      if (type !== event.type || event.isStopped) continue;
      if (once) this.removeEventListener(type, listener);
      if (typeof listener === 'function') listener.call(this, event);
      else listener.handleEvent(event);
    }
    return !event.defaultPrevented;
  }
}

export class AbortSignal extends EventTarget {
  aborted = false;
  reason = undefined;
  /** Set by {@link AbortSignal.timeout}: a request waits no longer, since no timer runs meanwhile. */
  until = Infinity;

  throwIfAborted() {
    if (this.aborted) throw this.reason;
  }

  static abort(reason) {
    const signal = new AbortSignal();
    abort(signal, reason);
    return signal;
  }

  /** @param {number} millis */
  static timeout(millis) {
    const signal = new AbortSignal();
    signal.until = Date.now() + millis;
    setTimeout(() => abort(signal, timedOut()), millis);
    return signal;
  }

  /** @param {Iterable<AbortSignal>} signals */
  static any(signals) {
    const all = [...signals];
    const signal = new AbortSignal();
    signal.until = Math.min(...all.map(({ until }) => until));
    const first = all.find(({ aborted }) => aborted);
    if (first) abort(signal, first.reason);
    for (const each of all) each.addEventListener('abort', () => abort(signal, each.reason));
    return signal;
  }
}

export class AbortController {
  signal = new AbortSignal();

  /** @param {unknown} [reason] */
  abort(reason) {
    abort(this.signal, reason);
  }
}

export const timedOut = () => new DOMException('The operation was aborted due to timeout', 'TimeoutError');

function abort(signal, reason = new DOMException('This operation was aborted', 'AbortError')) {
  if (signal.aborted) return;
  Object.assign(signal, { aborted: true, reason });
  signal.dispatchEvent(new Event('abort'));
}

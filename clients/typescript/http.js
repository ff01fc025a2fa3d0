// Requests to a server, by `fetch`.

const AGAIN = [429, 502, 503, 504];
/** If the server asks for more patience, the caller gets its error. */
const MOST_WAIT_MS = 60_000;

export class GristmillError extends Error {
  constructor(code, title, detail, status = 0, retryAfterMs = 0) {
    super(`${code}: ${detail}`);
    Object.assign(this, { name: 'GristmillError', code, title, detail, status, retryAfterMs });
    this.isTemporary = AGAIN.includes(status) || code === 'unreachable';
  }
}

export const sleep = (ms, signal) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true });
  });

export class Http {
  repeats = true;

  constructor(server, token, tries) {
    this.server = server.replace(/\/+$/, '');
    this.headers = token ? { authorization: `Bearer ${token}` } : {};
    this.tries = tries;
  }

  /** The answer's document, and how many tries it took. */
  async call(method, path, { document, headers, tries = this.tries, signal } = {}) {
    for (let tried = 1; ; tried++) {
      try {
        const either = AbortSignal.any([AbortSignal.timeout(60_000), ...(signal ? [signal] : [])]);
        const answer = await this.send(method, path, document, headers, either);
        return [await answer.json().catch((error) => this.failed(error)), tried];
      } catch (error) {
        const waitMs = Math.max(100 * 2 ** tried * (0.5 + Math.random() / 2), error.retryAfterMs ?? 0);
        if (tried >= tries || !error.isTemporary || waitMs > MOST_WAIT_MS) throw error;
        await sleep(waitMs);
      }
    }
  }

  async send(method, path, document, headers, signal) {
    const kinds = document === undefined ? {} : { 'content-type': 'application/json' };
    const body = document === undefined ? undefined : JSON.stringify(document);
    const all = { ...this.headers, ...kinds, ...headers };
    const answer = await fetch(this.server + path, { method, body, signal, headers: all, redirect: 'manual' }).catch((error) => this.failed(error));
    if (answer.ok) return answer;
    const text = await answer.text().catch((error) => this.failed(error));
    const isProblem = answer.headers.get('content-type')?.startsWith('application/problem+json');
    const elsewhere = answer.status < 400 && `the server redirects to ${answer.headers.get('location')}: name that address`;
    const proxys = { code: 'no-problem-document', title: answer.statusText, detail: elsewhere || text.slice(0, 1000) };
    const { code, title, detail } = isProblem ? JSON.parse(text) : proxys;
    throw new GristmillError(code, title, detail, answer.status, 1000 * (Number(answer.headers.get('retry-after')) || 0));
  }

  failed(error) {
    const cause = error.cause?.message || error.message;
    // Without the user and the password of the address: they are nobody's business in a log.
    const server = this.server.split('@').pop();
    const detail = `failed to get an answer of the server at ${server}: ${cause}; does it run there, with that scheme?`;
    throw new GristmillError('unreachable', 'No answer', detail);
  }
}

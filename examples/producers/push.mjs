/**
 * Pushes jobs over HTTP with nothing but `fetch`: Node.js 18 or later, Deno, Bun.
 *
 *     node push.mjs echo      # one job now, one in a minute, 2,500 at once; the server is at $GRISTMILL_SERVER,
 *                             // and $GRISTMILL_TOKEN is the token to come in with, if it wants one
 */
const URL = process.env.GRISTMILL_SERVER ?? 'http://127.0.0.1:7331';
const TOKEN = process.env.GRISTMILL_TOKEN;
const JOBS_PER_REQUEST = 1000;
const TRIES = 5;

/** The server understood and said no: the same push will be refused again. */
class Refused extends Error {}

/**
 * A job for `topic` whose body is `value` as JSON, due `after` so many milliseconds.
 *
 * The id is made here, before anything is sent: a push whose answer got lost may then be repeated, and is stored once.
 * The id alone says so until the job is done; as a unique value with a window it does for as long as anybody retries.
 */
function job(topic, value, { id = crypto.randomUUID(), after = 0, ...fields } = {}) {
  const unique = { value: id, window_ms: 3_600_000 };
  return { topic, id, body: value, unique, delay_ms: after, ...fields };
}

/**
 * What became of each job: `stored`, `exists` (it was there already) or `duplicate` (another has its unique value).
 *
 * Throws `Refused`, or what kept the last try from the server. Then jobs that come before may be stored, so push the
 * very same again: those that are there are answered `exists`.
 */
async function push(jobs) {
  const pushed = [];
  for (let first = 0; first < jobs.length; first += JOBS_PER_REQUEST) {
    pushed.push(...(await send(jobs.slice(first, first + JOBS_PER_REQUEST))));
  }
  return pushed.map(({ status, of }, at) => (of === jobs[at].id ? 'exists' : status));
}

async function send(jobs) {
  const headers = { 'Content-Type': 'application/json', ...(TOKEN && { Authorization: `Bearer ${TOKEN}` }) };
  const request = { method: 'POST', headers, body: JSON.stringify({ jobs }) };
  for (let tried = 1; ; tried++) {
    let wait = 100 * 2 ** tried;
    try {
      const answer = await fetch(`${URL}/v1/jobs`, { ...request, signal: AbortSignal.timeout(30_000) });
      const document = await answer.json();
      if (answer.ok) return document.pushed;
      const why = `${document.code}: ${document.detail}`; // a problem document, RFC 9457
      if (answer.status < 500 && answer.status !== 429) throw new Refused(why);
      wait = Math.max(wait, 1000 * Number(answer.headers.get('Retry-After')));
      throw new Error(why);
    } catch (error) {
      if (error instanceof Refused || tried === TRIES) throw error;
      await new Promise((wake) => setTimeout(wake, wait));
    }
  }
}

const [topic] = process.argv.slice(2);
try {
  const first = job(topic, { hello: 'now' });
  console.log('now:', await push([first]));
  console.log('the same again:', await push([first]));
  console.log('in a minute:', await push([job(topic, { hello: 'later' }, { after: 60_000, priority: 'low' })]));
  const many = await push(Array.from({ length: 2500 }, (_, number) => job(topic, { number })));
  console.log('many:', many.filter((status) => status === 'stored').length, 'stored');
} catch (error) {
  console.error(error instanceof Refused ? 'refused:' : `not pushed, ${TRIES} tries:`, error.message);
  process.exitCode = 1;
}

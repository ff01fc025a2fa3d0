/**
 * The runner's side of `index.js`, inside a component: the contract's functions. What the engine lacks is in `web/`.
 *
 * The build runs all modules once, with no runner around them, and freezes what they made. So nothing here calls the
 * runner until the first job.
 */
import * as config from 'gristmill:job/config@0.1.0';
import * as context from 'gristmill:job/context@0.1.0';
import * as logging from 'gristmill:job/log@0.1.0';
import * as queue from 'gristmill:job/queue@0.1.0';
import * as kept from 'gristmill:job/state@0.1.0';
import { frames, fromU64, run, setUp, toU64 } from '#engine';
import { Failure, Reject, Retry, Snooze, describe } from './index.js';

export const { get, secret } = config;
export const { isCancelled, progress } = context;
export const now = () => fromU64(context.now());
export const fuelRemaining = () => fromU64(context.fuelRemaining());
export const { emit, enabled } = logging;

export function checkpoint(state) {
  try {
    context.checkpoint(state);
  } catch ({ payload: { tag, val } }) {
    if (tag === 'too-large') throw new Reject('checkpoint-failed', `a checkpoint may have no more than ${val} bytes`);
    throw new Retry('checkpoint-failed', val);
  }
}

const UNLINKED = { after: [], afterFailed: 'dead', batch: null, open: false };

/** Changes the job: to copy its properties costs QuickJS as much as the rest. */
export function enqueue(job) {
  try {
    job.notBefore = toU64(job.notBefore);
    job.uniqueWindow = toU64(job.uniqueWindow);
    return queue.enqueueLinked(job, job.links ?? UNLINKED);
  } catch ({ payload: { tag, val } }) {
    const why = {
      'denied': `this topic may not enqueue to \`${job.topic}\`; name it in the manifest's \`enqueue\` grant`,
      'unknown-topic': `there is no topic \`${job.topic}\` to enqueue to; name it under \`topics\` in the manifest`,
      'too-large': `the body is larger than the ${val} bytes that topic \`${job.topic}\` accepts`,
      'too-many': `one attempt may enqueue no more than ${val} jobs`,
      'invalid-links': `the job for topic \`${job.topic}\` has invalid links: ${val}`,
    };
    throw new (tag === 'unknown-topic' ? Retry : Reject)('enqueue-failed', why[tag]);
  }
}

export const getState = () => ofState(kept.get);
export const setState = (value) => ofState(kept.set, value);

function ofState(call, ...given) {
  try {
    return call(...given);
  } catch ({ payload: { tag, val } }) {
    if (tag === 'no-key') throw new Reject(tag, 'the job has no key, so it has no state: push it with one');
    if (tag === 'too-large') throw new Reject('state-too-large', `the state is larger than ${val} bytes`);
    throw new Retry('state-unavailable', `the state cannot be read now: ${val}`);
  }
}

/** The object that the component exports. `attempt` makes an ending of a job, or a promise of one; `failed` makes one of an error. */
export function exported(attempt, failed) {
  return {
    handle(job) {
      job.key ??= null;
      job.checkpoint ??= null;
      job.enqueuedAt = fromU64(job.enqueuedAt);
      job.dueAt = fromU64(job.dueAt);
      job.deadline = fromU64(job.deadline);
      return run(job, () => attempt(job), failed, inWords);
    },
  };
}

/** An ending as the contract has it: returned, or thrown. */
function inWords(ending) {
  if (ending instanceof Snooze) return { tag: 'snooze', val: toU64(ending.wait) };
  if (!(ending instanceof Failure)) return { tag: 'complete', val: ending };
  const detail = { code: String(ending.code), message: ending.message, context: ending.context };
  // The contract's way to say that a function failed; any other value thrown is a trap.
  throw ending instanceof Reject ? { tag: 'reject', val: detail } : { tag: 'retry', val: [detail, toU64(ending.after ?? null)] };
}

/**
 * The stack of an error in lines of the sources, without those of this library, and the innermost place.
 *
 * @param {Error} error @returns {{ stack: string, place: string }}
 */
export function traced(error) {
  const { files, lines } = globalThis.gristmillLines ?? { files: [], lines: '' };
  const table = lines.split('\n');
  let place = '';
  const sourced = frames(error).map((frame) =>
    frame.replace(/\(?\/build\/[^()]*:(\d+):(\d+)\)?$/, (whole, line, column) => {
      const [first, ...more] = (table[line - 1] || '').split(',');
      const last = more.map((part) => part.split(':')).filter(([from]) => Number(from) <= Number(column)).at(-1);
      const [file, number] = last ? last.slice(1) : first.split(':');
      if (files[file] === undefined) return whole;
      const found = `${files[file]}:${number}`;
      place ||= files[file].startsWith('gristmill-guest/') ? '' : found;
      return `(${found})`;
    }),
  );
  // Neither this library's own, nor those of the helpers that the build adds for `async` functions.
  const own = sourced.filter((frame) => !/\((gristmill-guest\/\S+|\/build\/\S*)\)$| (next|throw) \(native\)$/.test(frame));
  return { stack: own.join('\n').trimEnd(), place };
}

setUp({
  describe,
  wait(millis) {
    throw new Reject('no-clock', `a timer of ${millis} ms cannot be waited for: add \`import 'gristmill-guest/clock';\` and grant \`clock = true\``);
  },
});

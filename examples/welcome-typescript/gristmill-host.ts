/**
 * The runner's side of `gristmill.ts`, inside a component: the contract's functions. What the engine lacks is in `gristmill-web/`.
 *
 * The build runs all modules once, with no runner around them, and freezes what they made. So nothing here calls the
 * runner until the first job.
 */
// @ts-expect-error only the component's builder knows the contract's modules
import * as config from 'gristmill:job/config@0.1.0';
// @ts-expect-error
import * as context from 'gristmill:job/context@0.1.0';
// @ts-expect-error
import * as logging from 'gristmill:job/log@0.1.0';
// @ts-expect-error
import * as queue from 'gristmill:job/queue@0.1.0';
// @ts-expect-error
import * as kept from 'gristmill:job/state@0.1.0';
// @ts-expect-error its types are below
import * as untyped from './gristmill-web/quickjs.js';
import { Failure, Reject, Retry, Snooze, describe } from './gristmill.ts';
import type { Ending, Level, WireJob, WireNewJob } from './gristmill.ts';

export const get: (name: string) => string | null = config.get;
export const secret: (name: string) => Uint8Array | null = config.secret;
export const now = (): number => engine.fromU64(context.now());
export const fuelRemaining = (): number => engine.fromU64(context.fuelRemaining());
export const isCancelled: () => boolean = context.isCancelled;
export const progress: (basisPoints: number, note: string | null) => void = context.progress;
export const emit: (level: Level, message: string, fields: [string, string][]) => void = logging.emit;
export const enabled: (level: Level) => boolean = logging.enabled;

/** What differs from engine to engine. */
interface Engine {
  /** A number of 64 bits, as the engine's bindings have it. */
  fromU64(value: unknown): number;
  toU64(value: number | null): unknown;
  setUp(given: { describe: (value: unknown) => string; wait: (millis: number) => void }): void;
  run(job: WireJob, work: () => Ending | Promise<Ending>, failed: (error: unknown) => Failure, inWords: (ending: Ending) => object): object;
  frames(error: Error): string[];
}
const engine: Engine = untyped;

/** An error that a function of the contract returned. */
interface Refusal {
  payload: { tag: string; val: unknown };
}

export function checkpoint(state: Uint8Array): void {
  try {
    context.checkpoint(state);
  } catch (error) {
    const { tag, val } = (error as Refusal).payload;
    if (tag === 'too-large') throw new Reject('checkpoint-failed', `a checkpoint may have no more than ${val} bytes`);
    throw new Retry('checkpoint-failed', String(val));
  }
}

export const getState = (): Uint8Array | null => ofState(() => kept.get());
export const setState = (value: Uint8Array | null): void => ofState(() => kept.set(value));

function ofState<T>(call: () => T): T {
  try {
    return call();
  } catch (error) {
    const { tag, val } = (error as Refusal).payload;
    if (tag === 'no-key') throw new Reject(tag, 'the job has no key, so it has no state: push it with one');
    if (tag === 'too-large') throw new Reject('state-too-large', `the state is larger than ${val} bytes`);
    throw new Retry('state-unavailable', `the state cannot be read now: ${val}`);
  }
}

export function enqueue({ links, ...job }: WireNewJob): string {
  try {
    const wire = { ...job, notBefore: engine.toU64(job.notBefore), uniqueWindow: engine.toU64(job.uniqueWindow) };
    return queue.enqueueLinked(wire, links ?? { after: [], afterFailed: 'dead', batch: null, open: false });
  } catch (error) {
    const { tag, val } = (error as Refusal).payload;
    const why: Record<string, string> = {
      'denied': `this topic may not enqueue to \`${job.topic}\`; name it in the manifest's \`enqueue\` grant`,
      'unknown-topic': `there is no topic \`${job.topic}\` to enqueue to`,
      'too-large': `the body is larger than the ${val} bytes that topic \`${job.topic}\` accepts`,
      'too-many': `one attempt may enqueue no more than ${val} jobs`,
      'invalid-links': `the job for topic \`${job.topic}\` has invalid links: ${val}`,
    };
    throw new (tag === 'unknown-topic' ? Retry : Reject)('enqueue-failed', why[tag] ?? tag);
  }
}

/** The object that the component exports. `attempt` makes an ending of a job, or a promise of one; `failed` makes one of an error. */
export function exported(attempt: (job: WireJob) => Ending | Promise<Ending>, failed: (error: unknown) => Failure): object {
  return {
    handle(given: WireJob) {
      const [enqueuedAt, dueAt, deadline] = [engine.fromU64(given.enqueuedAt), engine.fromU64(given.dueAt), engine.fromU64(given.deadline)];
      const job: WireJob = { ...given, key: given.key ?? null, checkpoint: given.checkpoint ?? null, enqueuedAt, dueAt, deadline };
      return engine.run(job, () => attempt(job), failed, inWords);
    },
  };
}

/** An ending as the contract has it: returned, or thrown. */
function inWords(ending: Ending): object {
  if (ending instanceof Snooze) return { tag: 'snooze', val: engine.toU64(ending.wait) };
  if (!(ending instanceof Failure)) return { tag: 'complete', val: ending };
  const detail = { code: ending.code, message: ending.message, context: ending.context };
  // The contract's way to say that a function failed; any other value thrown is a trap.
  if (ending instanceof Reject) throw { tag: 'reject', val: detail };
  throw { tag: 'retry', val: [detail, engine.toU64(ending instanceof Retry ? ending.after : null)] };
}

/** What `gristmill-build.js` adds to the bundle: where its lines come from. */
declare global {
  var gristmillLines: { files: string[]; lines: string } | undefined;
}

/** The stack of an error in lines of the sources, without those of this library, and the innermost place. */
export function traced(error: Error): { stack: string; place: string } {
  const { files, lines } = globalThis.gristmillLines ?? { files: [], lines: '' };
  const table = lines.split('\n');
  let place = '';
  const sourced = engine.frames(error).map((frame) =>
    frame.replace(/\(?\/build\/[^()]*:(\d+):(\d+)\)?$/, (whole: string, line: string, column: string) => {
      const [first = '', ...more] = (table[Number(line) - 1] ?? '').split(',');
      const last = more.map((part) => part.split(':')).filter(([from]) => Number(from) <= Number(column)).at(-1);
      const [file, number] = last ? last.slice(1) : first.split(':');
      const name = files[Number(file || -1)];
      if (name === undefined) return whole;
      place ||= name.startsWith('gristmill') ? '' : `${name}:${number}`;
      return `(${name}:${number})`;
    }),
  );
  // Neither this library's own, nor those of the helpers that the build adds for `async` functions.
  const own = sourced.filter((frame) => !/\((gristmill[\w-]*(\/\w+)?\.[jt]s:\d+|\/build\/\S*)\)$| (next|throw) \(native\)$/.test(frame));
  return { stack: own.join('\n').trimEnd(), place };
}

engine.setUp({
  describe,
  wait(millis) {
    throw new Reject('no-clock', `a timer of ${millis} ms cannot be waited for: add \`import '#clock';\` and grant \`clock = true\``);
  },
});

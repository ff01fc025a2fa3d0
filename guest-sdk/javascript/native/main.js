/** Does jobs on plain Node.js, for `gristmill dev --native`. No component has it. `start` starts it, and `host.js` talks to the runner. */
import { existsSync, renameSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import { end, loaded, next, replays } from './host.js';
import { Retry } from '../index.js';

const file = ['handler.ts', 'handler.js'].find(existsSync) ?? fail(`there is no handler.js and no handler.ts in ${process.cwd()}`);
const { href } = pathToFileURL(await bundle());
// It is checked for no types: with it comes all of `web`, which is written for another engine.
const replay = replays && (await import(/** @type {string} */ ('./replay.js')));
if (replay) replay.begin();
const { handler } = await import(href);
if (typeof handler?.handle !== 'function') fail(`\`handler\` in ${file} cannot be called: write \`export const handler = handle(yourFunction)\``);
await serve(replay && replays === 'first' ? { ...handler, handle: replay.held(handler.work) } : handler);

/** @param {string} problem @returns {never} */
function fail(problem) {
  console.error(problem);
  process.exit(1);
}

/** Makes one module of the project's own files; its packages stay where npm put them. Returns its path. */
async function bundle() {
  const outfile = resolve(`build/.native-${process.pid}.mjs`);
  try {
    await build({
      entryPoints: [file],
      outfile,
      bundle: true,
      format: 'esm',
      platform: 'node',
      packages: 'external',
      sourcemap: 'inline',
      sourcesContent: false,
      logLevel: 'warning',
      logOverride: { 'import-is-undefined': 'error' },
    });
  } catch {
    // esbuild has shown its errors.
    process.exit(1);
  }
  // One name for all processes: they are made of the same sources.
  renameSync(outfile, resolve('build/native.mjs'));
  return resolve('build/native.mjs');
}

/**
 * Does the runner's jobs until it has no more.
 *
 * @param {{ handle: (job: any) => any, failed: (error: unknown) => any }} handler
 */
async function serve({ handle, failed }) {
  /** Ends the attempt that runs; the first call counts. @type {(ending: any) => void} */
  let settle = () => {};
  const never = () => new Retry('exception', "the handler's promise never settled: nothing is left to run");
  process.on('beforeExit', () => settle(never()));
  process.on('uncaughtException', (error) => settle(failed(error)));
  process.on('unhandledRejection', (error) => settle(failed(error)));
  loaded();
  for (let job; (job = await next()) !== null; ) {
    const ending = new Promise((resolve) => {
      settle = resolve;
      // Node.js tells of a rejection that nothing handles before it goes on to this.
      Promise.resolve(handle(job)).then((made) => setImmediate(resolve, made));
    });
    end(await ending);
  }
  process.exit(0);
}

/** What the component exports. The build fails if `handler.ts` has no handler to be called. */
// First: it brings what the engine lacks, for the packages that the handler imports.
import '#host';
// @ts-expect-error JavaScript
import { drain } from './gristmill-web/quickjs.js';
import { handler } from './handler.ts';

if (typeof (handler as { handle?: unknown } | undefined)?.handle !== 'function') {
  throw new TypeError('`handler` in handler.ts cannot be called: write `export const handler = handle(yourFunction)`');
}

// What the modules began is done at build time, and costs the jobs nothing.
drain();

export { handler };

/** Called once before this version serves: a component without its exports traps here, and no job does. */
export const selfTest = { check(): void {} };

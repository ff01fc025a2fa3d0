/** What the component exports. The build fails if `handler.ts` has no handler to be called. */
import { handler } from './handler.ts';

if (typeof (handler as { handle?: unknown } | undefined)?.handle !== 'function') {
  throw new TypeError('`handler` in handler.ts cannot be called: write `export const handler = handle(yourFunction)`');
}

export { handler };

/** Called once before this version serves: a component without its exports traps here, and no job does. */
export const selfTest = { check(): void {} };

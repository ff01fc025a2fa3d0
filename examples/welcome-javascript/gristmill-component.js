/** What the component exports. The build fails if `handler.js` has no handler to be called. */
import { handler } from './handler.js';

if (typeof handler?.handle !== 'function') {
  throw new TypeError('`handler` in handler.js cannot be called: write `export const handler = handle(yourFunction)`');
}

export { handler };

/** Called once before this version serves: a component without its exports traps here, and no job does. */
export const selfTest = { check() {} };

/** What the component exports. The build fails if the project's file has no handler to be called. */
// First: it brings what the engine lacks, for the packages that the handler imports.
import '#host';
import { drain } from '#engine';
import * as made from '#handler';

// Not imported by its name: where that is not exported, the bundler would show this file, and not say what is to be done.
const { handler } = made;

if (typeof handler?.handle !== 'function') {
  throw new TypeError(`\`handler\` in ${HANDLER_FILE} cannot be called: write \`export const handler = handle(yourFunction)\``);
}
// What the modules began is done at build time, and costs the jobs nothing.
drain();

export { handler };

/** Called once before this version serves: a component without its exports traps here, and no job does. */
export const selfTest = { check() {} };

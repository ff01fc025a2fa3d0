/** In place of `quickjs.js` for StarlingMonkey, which has an event loop and most of the web's platform. */

/** Numbers of 64 bits are a `BigInt` in this engine's bindings. */
export const fromU64 = Number;
export const toU64 = (number) => (number === null ? null : BigInt(number));

export function setUp() {}
export function drain() {}

export async function run(job, work, failed, inWords) {
  let ending;
  try {
    ending = await work();
  } catch (error) {
    ending = failed(error);
  }
  return inWords(ending);
}

/** Those of the bundle: the others are of what `componentize` adds. */
export const frames = ({ stack = '' }) =>
  stack.split('\n').filter((line) => !/\/initializer\.js:/.test(line)).map((line) => line.replace(/^(.*)@(?:.*\/)?handler\.js:(\d+):(\d+)$/, '    at $1 (/build/handler.js:$2:$3)'));

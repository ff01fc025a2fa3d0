/**
 * What QuickJS lacks: a clock, random numbers, `console`, and texts as bytes. For another engine the build takes `starlingmonkey.js` in place of this
 * module, with the same exports.
 */
import * as context from 'gristmill:job/context@0.1.0';
import * as logging from 'gristmill:job/log@0.1.0';
import { finish, reset, runner } from './loop.js';

export { drain } from './loop.js';

/** Numbers of 64 bits are plain ones here. */
export const fromU64 = (number) => number;
export const toU64 = (number) => number;

let describe = String;

/** @param {{ describe: (value: unknown) => string, wait: (millis: number) => void }} given `wait` is for timers without a clock */
export function setUp(given) {
  describe = given.describe;
  runner.wait = given.wait;
}

/**
 * One attempt.
 *
 * @param {{ id: string, attempt: number }} job
 * @param {() => unknown} work its ending, or a promise of it
 * @param {(error: unknown) => unknown} failed the ending for an error
 * @param {(ending: unknown) => unknown} inWords what the component returns or throws for it
 */
export function run(job, work, failed, inWords) {
  runner.running = true;
  unseeded = job;
  reset();
  let ending;
  try {
    ending = finish(work());
  } catch (error) {
    ending = failed(error);
  }
  return inWords(ending);
}

/** The lines of an error's stack, each with its place in the bundle as `(/build/handler.js:1:2)`. @param {Error} error */
export const frames = ({ stack = '' }) => stack.split('\n');

// The engine's own clock is WASI's, which this component is built without: it would trap.
const NativeDate = Date;
const buildTime = NativeDate.now;
NativeDate.now = () => (runner.running ? context.now() : buildTime());
globalThis.Date = new Proxy(NativeDate, {
  apply: () => new Date().toString(),
  construct: (target, given, made) => Reflect.construct(target, given.length === 0 ? [Date.now()] : given, made),
});
NativeDate.prototype.constructor = Date;
globalThis.performance = { timeOrigin: 0, now: () => Date.now() };

runner.now = () => Date.now();
// The engine's own generator is frozen by the build: every job would see the same numbers. This one (sfc32) begins anew
// with every attempt, the same for the same one. It is no source of secrets.
let [a, b, c, count] = [0, 0, 0, 0];
/** The attempt whose first number will seed it: few handlers ask for any. @type {{ id: string, attempt: number } | null} */
let unseeded = null;
Math.random = () => {
  if (unseeded) seed(`${unseeded.id} ${unseeded.attempt}`);
  const sum = (a + b + count++) | 0;
  a = b ^ (b >>> 9);
  b = (c + (c << 3)) | 0;
  c = (((c << 21) | (c >>> 11)) + sum) | 0;
  return (sum >>> 0) / 2 ** 32;
};

/** Spreads the text over the generator's state. @param {string} text */
function seed(text) {
  unseeded = null;
  [a, b, c, count] = [hash(text, 0), hash(text, 1), hash(text, 2), 1];
  for (let round = 0; round < 12; round++) Math.random();
}

/** FNV-1a, from one of several beginnings. @param {string} text @param {number} beginning */
function hash(text, beginning) {
  let hash = 0x811c9dc5 ^ beginning;
  for (const char of text) hash = Math.imul(hash ^ char.charCodeAt(0), 0x01000193);
  return hash;
}
seed(String(buildTime()));

// Of ten, this library's own would leave too few.
Error.stackTraceLimit = 30;

/** What is printed while the component is built is dropped. */
const printer = (level) => (...values) => {
  if (runner.running) logging.emit(level, values.map(describe).join(' '), []);
};
globalThis.console = { log: printer('info') };
for (const level of ['trace', 'debug', 'info', 'warn', 'error']) console[level] = printer(level);

// A loop over bytes costs this engine about 0.3 ms for each KiB. These go by way of base64 and percent-encoding, which are
// built in and several times as fast.
globalThis.TextEncoder = class TextEncoder {
  encoding = 'utf-8';

  encode(text = '') {
    return Uint8Array.fromBase64(btoa(unescape(encodeURIComponent(String(text).toWellFormed()))));
  }
};

globalThis.TextDecoder = class TextDecoder {
  encoding = 'utf-8';

  constructor(label = 'utf-8', { fatal = false, ignoreBOM = false } = {}) {
    if (!/^(utf-?8|unicode-1-1-utf-8)$/i.test(label)) throw new RangeError(`no encoding but UTF-8 is built in: ${label}`);
    this.fatal = fatal;
    this.ignoreBOM = ignoreBOM;
  }

  decode(input = new Uint8Array(), options) {
    if (options?.stream) throw new TypeError('text is decoded whole, not as a stream');
    const bytes = input instanceof Uint8Array ? input : bytesOf(input);
    let text;
    try {
      text = atob(bytes.toBase64());
      // A short text is looked through faster than words are made of it.
      if (!(text.length < 256 ? /^[\0-\x7f]*$/.test(text) : isAscii(bytes))) text = decodeURIComponent(escape(text));
    } catch {
      if (this.fatal) throw new TypeError('the bytes are not UTF-8');
      text = decodeLossy(bytes);
    }
    return !this.ignoreBOM && text.startsWith('\ufeff') ? text.slice(1) : text;
  }
};

/** @param {ArrayBuffer | ArrayBufferView} input */
function bytesOf(input) {
  return ArrayBuffer.isView(input) ? new Uint8Array(input.buffer, input.byteOffset, input.byteLength) : new Uint8Array(input);
}

/** Eight words at a time, for speed. @param {Uint8Array} bytes */
function isAscii(bytes) {
  const whole = bytes.length - (bytes.length % 32);
  const words = new Uint32Array(bytes.slice(0, whole).buffer);
  let seen = 0;
  for (let at = 0; at < words.length; at += 8) {
    seen |= words[at] | words[at + 1] | words[at + 2] | words[at + 3];
    seen |= words[at + 4] | words[at + 5] | words[at + 6] | words[at + 7];
  }
  for (let at = whole; at < bytes.length; at++) seen |= bytes[at];
  return (seen & 0x80808080) === 0;
}

/** Each maximal part of a broken sequence becomes one U+FFFD, as the Encoding Standard has it. @param {Uint8Array} bytes */
function decodeLossy(bytes) {
  let text = '';
  for (let at = 0; at < bytes.length; ) {
    const lead = bytes[at++];
    const more = lead < 0x80 ? 0 : lead < 0xc2 ? -1 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : lead < 0xf5 ? 3 : -1;
    let point = more > 0 ? lead & (0x3f >> more) : lead;
    let low = lead === 0xe0 ? 0xa0 : lead === 0xf0 ? 0x90 : 0x80;
    let high = lead === 0xed ? 0x9f : lead === 0xf4 ? 0x8f : 0xbf;
    let taken = 0;
    while (taken < more && bytes[at] >= low && bytes[at] <= high) {
      point = (point << 6) | (bytes[at++] & 0x3f);
      [low, high] = [0x80, 0xbf];
      taken++;
    }
    text += taken === more ? String.fromCodePoint(point) : '\ufffd';
  }
  return text;
}

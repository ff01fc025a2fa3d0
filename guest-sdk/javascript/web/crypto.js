/** Random numbers of the runner, for secrets too. A component that mentions `crypto` needs the grant `random = true`. */
import { getRandomBytes } from 'host:random/random@0.2.0';

const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');

export const crypto = {
  /** @template {ArrayBufferView} T @param {T} array of integers, at most 64 KiB @returns {T} */
  getRandomValues(array) {
    if (array.byteLength > 65536) throw new RangeError('at most 65536 random bytes at once');
    new Uint8Array(array.buffer, array.byteOffset, array.byteLength).set(getRandomBytes(array.byteLength));
    return array;
  },

  /** A UUID of version 4. @returns {string} */
  randomUUID() {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    return hex(bytes).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
  },
};

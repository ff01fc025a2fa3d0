/** A deep copy, as the HTML Standard has it. @param {unknown} value @throws {DOMException} of a function, a symbol or a promise */
export function structuredClone(value) {
  return clone(value, new Map());
}

/** @param {Map<object, object>} seen what was cloned already */
function clone(value, seen) {
  if (typeof value === 'function' || typeof value === 'symbol') throw uncloneable(value);
  if (typeof value !== 'object' || value === null) return value;
  if (seen.has(value)) return seen.get(value);
  const keep = (copy) => {
    seen.set(value, copy);
    return copy;
  };
  if (value instanceof Date) return keep(new Date(value.getTime()));
  if (value instanceof RegExp) return keep(new RegExp(value.source, value.flags));
  if (value instanceof ArrayBuffer) return keep(value.slice());
  if (ArrayBuffer.isView(value)) {
    const { constructor: View, byteOffset, byteLength, length } = value;
    return keep(new View(clone(value.buffer, seen), byteOffset, value instanceof DataView ? byteLength : length));
  }
  if (value instanceof Boolean || value instanceof Number || value instanceof String) return keep(Object(value.valueOf()));
  if (value instanceof Map) {
    const copy = keep(new Map());
    for (const [key, item] of [...value]) copy.set(clone(key, seen), clone(item, seen));
    return copy;
  }
  if (value instanceof Set) {
    const copy = keep(new Set());
    for (const item of [...value]) copy.add(clone(item, seen));
    return copy;
  }
  if (value instanceof Error) {
    const copy = keep(Object.create(Object.getPrototypeOf(value)));
    for (const name of ['message', 'stack', 'cause']) {
      if (Object.hasOwn(value, name)) Object.defineProperty(copy, name, { value: clone(value[name], seen), configurable: true, writable: true });
    }
    return copy;
  }
  if (value instanceof Promise || value instanceof WeakMap || value instanceof WeakSet || value instanceof WeakRef) throw uncloneable(value);
  const copy = keep(Array.isArray(value) ? new Array(value.length) : {});
  for (const key of Object.keys(value)) copy[key] = clone(value[key], seen);
  return copy;
}

const uncloneable = (value) => new DOMException(`${String(value)} could not be cloned.`, 'DataCloneError');

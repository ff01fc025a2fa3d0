// The contract of wit/job.wit by the component model's canonical ABI. Generated: `cargo run -p gristmill-guest-abi` in Gristmill's
// repository writes it anew.
//
// What is handed over lies outside the collector's reach, and is freed by `release`.

import { Job, Pairs, Payload, Response } from "./index";

/** A plain value that may be missing. */
export class Some<T> {
  constructor(public value: T) {}
}

/** What a call returned, or why it failed. */
export class Result<T, E> {
  constructor(
    public ok: T,
    public err: E | null,
  ) {}
}

/** The block that was lent last; each begins with the address of the one before. */
let last: usize = 0;
const HEAD: usize = 16; // as the heap aligns to 16, more than anything needs

/** Memory that both sides know, until `release`. */
function lend(size: usize): usize {
  const block = heap.alloc(HEAD + size);
  store<usize>(block, last);
  last = block;
  return block + HEAD;
}

/** Frees all that was lent, by either side. */
export function release(): void {
  while (last) {
    const block = last;
    last = load<usize>(block);
    heap.free(block);
  }
}

/** Where the host puts what it hands over. It calls nothing of ours while we are in here, nor may we call it. */
export function realloc(old: usize, oldSize: usize, size: usize): usize {
  const at = lend(size);
  memory.copy(at, old, min(oldSize, size));
  return at;
}

/** An object whose fields are set at once. */
function blank<T>(): T {
  return changetype<T>(__new(offsetof<T>(), idof<T>()));
}

function liftText(at: usize): string {
  return String.UTF8.decodeUnsafe(load<usize>(at), load<usize>(at, 4));
}

function storeText(at: usize, text: string): void {
  const size = String.UTF8.byteLength(text);
  const copy = lend(size);
  String.UTF8.encodeUnsafe(changetype<usize>(text), text.length, copy);
  store<usize>(at, copy);
  store<usize>(at, size, 4);
}

function liftBytes(at: usize): Uint8Array {
  const data = new Uint8Array(load<i32>(at, 4));
  memory.copy(data.dataStart, load<usize>(at), data.length);
  return data;
}

function storeBytes(at: usize, data: Uint8Array): void {
  const copy = lend(data.length);
  memory.copy(copy, data.dataStart, data.length);
  store<usize>(at, copy);
  store<usize>(at, data.length, 4);
}

function liftPair(at: usize): string[] {
  return [liftText(at), liftText(at + 8)];
}

function storePair(at: usize, pair: string[]): void {
  storeText(at, pair[0]);
  storeText(at + 8, pair[1]);
}

function liftList<T>(at: usize, size: usize, lift: (at: usize) => T): T[] {
  const list: T[] = [];
  const begin = load<usize>(at);
  const end = begin + load<usize>(at, 4) * size;
  for (let item = begin; item < end; item += size) list.push(lift(item));
  return list;
}

function storeList<T>(at: usize, list: T[], size: usize, storeItem: (at: usize, value: T) => void): void {
  let item = lend(<usize>list.length * size);
  store<usize>(at, item);
  store<usize>(at, list.length, 4);
  for (let i = 0; i < list.length; i++) {
    storeItem(item, list[i]);
    item += size;
  }
}

// What the runner calls. The compiler starts here, in the project's node_modules; names.mjs renames the first two.

import { handle as handler } from "../../assembly/handler";
import { readJob, realloc, release, writeEnding } from "gristmill-guest-assemblyscript/wire";

export function handle(at: usize): usize {
  const job = readJob(at);
  release();
  return writeEnding(handler(job));
}

/** Called once the host has read the ending. */
export function postHandle(at: usize): void {
  release();
}

export function cabi_realloc(old: usize, oldSize: usize, align: usize, size: usize): usize {
  return realloc(old, oldSize, size); // the heap aligns to 16, more than anything needs
}

// What the runner calls. The compiler starts here, in the project's node_modules; names.mjs renames the first two.

import { handle as handler } from "../../assembly/handler";
import { Ending, Job, Kind } from "gristmill-guest-assemblyscript";
import {
  Failure, FailureDetail, FailureKind, FailureRetryValue, Outcome, OutcomeKind, Result, Some, handler as contract, realloc, release,
} from "gristmill-guest-assemblyscript/contract";

export function handle(at: usize): usize {
  return contract.handle(at, attempt);
}

/** Called once the host has read the ending. */
export function postHandle(at: usize): void {
  release();
}

export function cabi_realloc(old: usize, oldSize: usize, align: usize, size: usize): usize {
  return realloc(old, oldSize, size); // the heap aligns to 16, more than anything needs
}

function attempt(job: Job): Result<Outcome | null, Failure> {
  const ending = handler(job);
  const failed = ending.kind == Kind.Retry || ending.kind == Kind.Reject;
  return new Result<Outcome | null, Failure>(failed ? null : outcome(ending), failed ? failure(ending) : null);
}

function outcome(ending: Ending): Outcome {
  const outcome = new Outcome(ending.kind == Kind.Snooze ? OutcomeKind.Snooze : OutcomeKind.Complete);
  outcome.complete = ending.payload;
  outcome.snooze = ending.wait;
  return outcome;
}

function failure(ending: Ending): Failure {
  const failure = new Failure(ending.kind == Kind.Retry ? FailureKind.Retry : FailureKind.Reject);
  const detail = new FailureDetail(ending.code, ending.message, ending.payload);
  failure.reject = detail;
  failure.retry = new FailureRetryValue(detail, ending.wait < 0 ? null : new Some<u64>(ending.wait));
  return failure;
}

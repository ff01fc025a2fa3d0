//! What only a file does. What every store does is tested in the conformance suite, `tests/store/it/conformance/`.

mod concurrency;
mod crash;
mod file;
mod gone;
mod invariants;
mod leftovers;
mod opening;
mod outage;
mod waiting;

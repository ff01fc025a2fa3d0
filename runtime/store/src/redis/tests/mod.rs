//! What only Redis does. What every store does is told in the conformance suite, `tests/it/conformance/`.

mod cancel;
mod finding;
mod mill;
mod moving;
mod outage;
mod pause;
mod priority;
mod raw;
mod results;
mod sweep;
mod waking;
mod windows;

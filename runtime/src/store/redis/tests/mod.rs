//! How the store behaves, told through the contract alone; and what only Redis does.

mod cancel;
mod finding;
mod life;
mod looking;
mod mill;
mod moving;
mod outage;
mod pause;
mod priority;
mod raw;
mod sweep;
mod waking;
mod windows;

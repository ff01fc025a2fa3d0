//! How the store behaves, told through the contract alone; and what only Redis does.

mod finding;
mod life;
mod looking;
mod mill;
mod outage;
mod waking;

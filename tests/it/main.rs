//! The end-to-end tests: one binary, real guests, a real Redis.

mod cli;
mod crash;
mod fairness;
mod hardship;
mod outcomes;
mod reload;
mod shutdown;
mod tidy;

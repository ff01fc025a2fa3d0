//! The end-to-end tests: one binary, real guests, real stores.

#[macro_use]
mod both;

mod cli;
mod crash;
mod fairness;
mod hardship;
mod interventions;
mod outcomes;
mod raw;
mod reload;
mod shutdown;
mod tidy;

//! The end-to-end tests, and the proof that all stores are one queue: one binary, real guests, real stores.

#[macro_use]
mod both;

mod cli;
mod conformance;
mod crash;
mod fairness;
mod hardship;
mod interventions;
mod journal;
mod killed;
mod model;
mod outcomes;
mod raw;
mod reload;
mod shutdown;
mod tidy;

//! The command line as a user uses it: the real binary, the embedded store and a real Redis, the stock handlers.

mod check;
mod compile;
mod control;
mod copy;
mod dead;
mod figures;
mod invoke;
mod look;
mod orders;
mod owner;
mod push;
mod run;
mod wait;

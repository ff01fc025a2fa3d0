//! The command line as a user uses it: the real binary, a real Redis, the stock handlers.

mod check;
mod compile;
mod dead;
mod invoke;
mod look;
mod orders;
mod push;
mod run;
mod wait;

//! The command line: the only place that wires rooms. Reference for people: `docs/reference/cli.md`.

mod attempts;
mod audit;
mod bill;
mod bulk;
mod check;
mod command;
mod copy;
mod dead;
mod dev;
mod document;
#[cfg(test)]
mod documented;
mod exit;
mod find;
mod folder;
mod fsck;
mod global;
mod history;
mod input;
mod invoke;
mod job;
mod known;
mod logging;
mod pause;
mod project;
mod purge;
mod push;
mod push_from;
mod push_lines;
mod run;
mod sandbox;
mod schedule;
mod screen;
mod signals;
mod state;
mod stats;
mod store;
mod table;
mod tenant;
mod token;
#[cfg(feature = "top")]
mod top;
mod topic_line;
mod topics;
mod tree;
mod unique;
mod usage;
mod used;
mod wait;
mod why;
mod workers;

pub use command::main;

//! Gristmill: a job runner whose handlers are WebAssembly components.
//!
//! # The house
//!
//! Rooms stand on floors and import only from the floors below (a test reads the imports and holds them to it):
//!
//! | floor | rooms | what |
//! |---|---|---|
//! | 0 | [`job`] [`topic`] [`http_grant`] [`outcome`] [`retry`] [`time`] [`token`] | facts, no I/O |
//! | 1 | [`config`] | settings and the topic manifest |
//! | 1 | [`metrics`] | what the house tells of itself: numbers and events |
//! | 2 | [`store`] | where jobs are; knows no Wasm |
//! | 2' | [`wasm`] | the sandbox; knows no store |
//! | 3 | [`handlers`] | which component does which topic's jobs, and its reload |
//! | 4 | [`runner`] | joins store and sandbox: claim, execute, decide, settle |
//! | 5 | [`bench`] | the benchmarks that come with the product |
//! | 5 | [`http`] | the server's door: health, and the JSON API that commands use |
//! | 6 | [`cli`] | the only place that wires rooms |
//!
//! A job's way is a straight corridor: [`store::Store::push`], migrate, claim, execute, [`retry::decide`], settle.

pub mod http_grant;
pub mod job;
pub mod outcome;
pub mod retry;
pub mod time;
pub mod token;
pub mod topic;

pub mod config;
pub mod metrics;

pub mod store;
pub mod wasm;

pub mod handlers;

pub mod runner;

pub mod bench;
pub mod http;

pub mod cli;

//! Facts about jobs, topics, tokens and time, and two pure decisions ([`admission`], [`retry::decide`]). No I/O.

// What `with_job_options!` expands to names this crate, also in this crate.
extern crate self as gristmill_core;

mod adapter;
pub mod admission;
pub mod bill;
pub mod capability;
pub mod deployment;
pub mod fleet_limits;
pub mod http_grant;
pub mod job;
pub mod json;
pub mod outcome;
mod record_policy;
pub mod retry;
pub mod schedule;
pub mod time;
pub mod token;
pub mod topic;
pub mod trace;
pub mod trial;
pub mod units;
pub mod version;

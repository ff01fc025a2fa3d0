//! Facts about jobs, topics, tokens and time, and two pure decisions ([`admission`], [`retry::decide`]). No I/O.

pub mod admission;
pub mod capability;
pub mod http_grant;
pub mod job;
pub mod json;
pub mod outcome;
pub mod retry;
pub mod time;
pub mod token;
pub mod topic;

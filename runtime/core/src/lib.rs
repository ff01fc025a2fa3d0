//! Facts about jobs, topics, tokens and time, and one pure decision ([`retry::decide`]). No I/O.

pub mod http_grant;
pub mod job;
pub mod outcome;
pub mod retry;
pub mod time;
pub mod token;
pub mod topic;

//! Bulk actions: one action on all jobs that fit a query, first a dry run, then step by step.
//!
//! ```text
//! make ─► counting ─► counted ─► start ─► running ─► done
//!             └───────────┴──────────────────┴─────► aborted, failed
//! ```
//!
//! `registry` keeps them, in the memory of this server; `engine` carries them out, `work` is one step of that.

mod engine;
mod erase;
mod registry;
mod work;

#[cfg(test)]
mod tests;

pub(crate) use engine::run;
pub(crate) use registry::BulkActions;
pub(crate) use work::Work;

//! What the writer remembers, so that it need not look for it in the file: topics, and what of them runs.

pub(super) mod running;
mod tenant_runs;
pub(super) mod topic;
pub(super) mod topics;

//! The path of a job, a folder for each step. `finish` has what all scripts that end jobs share.

pub(super) mod claim;
mod lease;
pub(super) mod migrate;
pub(super) mod push;
mod reap;
pub(super) mod settle;
mod sweep;

//! The path of a job, a file or a folder for each step. Every job that ends does so in `finish`.

mod claim;
pub(super) mod finish;
pub(super) mod lease;
mod migrate;
pub(super) mod push;
mod reap;
pub(super) mod settle;
mod sweep;

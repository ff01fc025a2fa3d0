//! The steps of a job, as the store's `path/` has them: what the runner asks of the store, and what it does in between.

pub(crate) mod claim;
pub(crate) mod decide;
pub(crate) mod execute;
pub(crate) mod in_flight;
mod lease;
pub(crate) mod lease_extender;
pub(crate) mod migrate;
pub(crate) mod reap;
pub(crate) mod settle;
pub(crate) mod sweep;
pub(crate) mod work;

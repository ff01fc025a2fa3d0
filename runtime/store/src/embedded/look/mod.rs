//! Looking at what is stored: none of it changes a job.

pub(super) mod ended;
pub(super) mod fsck;
pub(super) mod inspect;
mod list;
mod probe;
mod usage;

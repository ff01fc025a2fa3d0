//! The steps of a job in the runner. `claim`, `migrate`, `settle`, `reap` and `sweep` call the store's step of the same name; `execute` and `decide` come in
//! between. `work` is what they hand on, `in_flight` what this worker holds, `lease` for how long, and `lease_extender` makes that longer.

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

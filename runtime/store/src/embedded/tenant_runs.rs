//! What the writer remembers of tenants whose limits are about running jobs.

use std::collections::{HashMap, VecDeque};

use super::topics::Number;
use gristmill_core::job::Name;

/// The running jobs of each tenant whose limits are about them, and its topics that wait until one ends, the longest first. A topic that waits no
/// longer may still be among them.
pub(super) type TenantRuns = HashMap<Name, TenantRun>;

#[derive(Debug, Default)]
pub(super) struct TenantRun {
    pub(super) running: u64,
    pub(super) waiting: VecDeque<Number>,
}

//! What the writer remembers of tenants whose limits are about running jobs.

use std::collections::{HashMap, VecDeque};

use super::topics::Number;
use gristmill_core::job::Name;

/// The running jobs of each tenant whose limits are about them, and its topics that wait until one ends, the longest first. A topic that waits no
/// longer may still be among them.
pub(in crate::embedded) type TenantRuns = HashMap<Name, TenantRun>;

#[derive(Debug, Default)]
pub(in crate::embedded) struct TenantRun {
    pub(in crate::embedded) running: u64,
    pub(in crate::embedded) waiting: VecDeque<Number>,
}

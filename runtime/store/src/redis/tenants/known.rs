//! What this process remembers of tenants.

use std::collections::HashSet;

use parking_lot::Mutex;

use gristmill_core::job::Name;

/// The tenants that this process has seen to it are in the SET.
pub(in crate::redis) type Listed = Mutex<HashSet<Name>>;

/// The tenants of which something was found when they were last asked for.
#[derive(Debug, Default)]
pub(in crate::redis) struct Busy(pub(super) Mutex<HashSet<Name>>);

impl Busy {
    pub(in crate::redis) fn note(&self, tenant: &Name, is_busy: bool) {
        let mut busy = self.0.lock();
        if !is_busy {
            busy.remove(tenant);
        } else if !busy.contains(tenant) {
            busy.insert(tenant.clone());
        }
    }
}

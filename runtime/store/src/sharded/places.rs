//! In which stores there may be something of a tenant.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::member::Shard;
use crate::Placement;
use gristmill_core::job::Name;

/// A tenant's stores, as places in the list of members. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Places {
    /// The first takes what is pushed. None: it lives in a store that this manifest does not name.
    pub(super) members: Arc<[usize]>,
    /// Its jobs are on their way to the first.
    pub(super) is_moving: bool,
}

impl Places {
    pub(super) fn is_single(&self) -> bool {
        self.members.len() == 1
    }

    /// From the one that it left first to the one that it lives in: the way that jobs go. Who looks in this order misses
    /// none that moves meanwhile.
    pub(super) fn in_order_of_moves(&self) -> impl Iterator<Item = usize> + use<> {
        let members = Arc::clone(&self.members);
        (0..members.len()).rev().filter_map(move |place| members.get(place).copied())
    }
}

/// Where everybody lives, as last read.
#[derive(Debug)]
pub(super) struct View {
    /// Without the tenants that have always lived at home.
    tenants: HashMap<Name, Places>,
    at_home: Places,
    pub(super) records: BTreeMap<Name, Placement>,
}

impl View {
    pub(super) fn new(
        members: &[Arc<Shard>],
        residences: &BTreeMap<Name, Name>,
        records: BTreeMap<Name, Placement>,
    ) -> Self {
        let place = |name: &Name| members.iter().position(|member| member.name == *name);
        let mut tenants = HashMap::new();
        for (tenant, store) in residences {
            // What was pushed before the manifest said so is at home.
            let members = place(store).into_iter().chain([0]).collect();
            tenants.insert(tenant.clone(), Places { members, is_moving: false });
        }
        for (tenant, record) in &records {
            let members = match place(&record.store) {
                Some(first) => std::iter::once(first).chain(record.behind().filter_map(place)).collect(),
                None => Arc::default(),
            };
            tenants.insert(tenant.clone(), Places { members, is_moving: record.from.is_some() });
        }
        Self { tenants, at_home: Places { members: [0].into(), is_moving: false }, records }
    }

    pub(super) fn of(&self, tenant: &Name) -> &Places {
        self.tenants.get(tenant).unwrap_or(&self.at_home)
    }

    /// The tenants that are known to live, or have lived, elsewhere.
    pub(super) fn tenants(&self) -> impl Iterator<Item = &Name> {
        self.tenants.keys()
    }
}

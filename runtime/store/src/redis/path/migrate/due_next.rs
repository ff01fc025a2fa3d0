//! What of each tenant is due next, as this process saw it last.

use std::collections::HashMap;

use parking_lot::Mutex;

use gristmill_core::job::Name;

/// What of each tenant is due next, as last seen; of tenants that have something that is. A script may not make up key names, so they have to be known
/// before; a guess that is right saves the moment of truth a round trip.
pub(in crate::redis) type AllDueNext = Mutex<HashMap<Name, Next>>;

/// What is due next.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::redis) struct Next {
    pub(in crate::redis) topics: Vec<DueNext>,
    pub(in crate::redis) schedules: bool,
    pub(in crate::redis) ends: bool,
}

/// A member of `due` for a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::redis) struct DueNext {
    pub(in crate::redis) member: String,
    pub(in crate::redis) topic: Name,
}

impl DueNext {
    /// Returns `None` for a member that no version of this program has written which this one knows.
    pub(in crate::redis) fn read(member: String) -> Option<Self> {
        let topic = member.strip_suffix('@').unwrap_or(&member).parse().ok()?;
        Some(Self { member, topic })
    }
}

//! What of each tenant is due next, as this process saw it last.

use std::collections::HashMap;

use parking_lot::Mutex;

use gristmill_core::job::Name;

/// What of each tenant is due next, as last seen; of tenants that have something that is. A script may not make up key names, so they have to be known
/// before; a guess that is right saves the moment of truth a round trip.
pub(in crate::redis) type AllDueNext = Mutex<HashMap<Name, Next>>;

/// The member of `due` that stands for all schedules.
const SCHEDULES: &str = "@schedules";

/// The one for ends of jobs that are still to be passed on.
const ENDS: &str = "@ends";

/// What is due next.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::redis) struct Next {
    pub(in crate::redis) topics: Vec<DueNext>,
    pub(in crate::redis) schedules: bool,
    pub(in crate::redis) ends: bool,
}

impl Next {
    /// By members of `due`.
    pub(in crate::redis) fn of(members: impl Iterator<Item = String>) -> Self {
        let mut next = Self::default();
        for member in members {
            match member.as_str() {
                SCHEDULES => next.schedules = true,
                ENDS => next.ends = true,
                _ => next.topics.extend(DueNext::read(member)),
            }
        }
        next
    }
}

/// A member of `due` for a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::redis) struct DueNext {
    pub(in crate::redis) member: String,
    pub(in crate::redis) topic: Name,
}

impl DueNext {
    /// Returns `None` for a member that no version of this program has written which this one knows.
    fn read(member: String) -> Option<Self> {
        let topic = member.strip_suffix('@').unwrap_or(&member).parse().ok()?;
        Some(Self { member, topic })
    }
}

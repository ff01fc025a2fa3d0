//! The rules of the states of keys.

use gristmill::outcome::StateChange;
use gristmill::store::{Settlement, StateWrite};

use super::Model;

impl Model {
    /// What a completed job leaves.
    pub(super) fn set_state(&mut self, Settlement { lease, state, .. }: &Settlement) {
        let Some(StateWrite { key, change, .. }) = state else { return };
        let of = (lease.topic.clone(), key.clone());
        match change {
            StateChange::Set(value) => drop(self.states.insert(of, value.clone())),
            StateChange::Delete => drop(self.states.remove(&of)),
        }
    }
}

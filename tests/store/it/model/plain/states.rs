//! The rules of the states of keys.

use gristmill_core::outcome::StateChange;
use gristmill_store::{Settlement, StateWrite, VersionedState};

use super::Model;

impl Model {
    /// What a completed job leaves.
    pub(super) fn set_state(&mut self, Settlement { lease, state, .. }: &Settlement) {
        let Some(StateWrite { key, change, .. }) = state else { return };
        let of = (lease.topic.clone(), key.clone());
        match change {
            StateChange::Set(value) => {
                let version = self.states.get(&of).map_or(self.now.as_millis(), |state| state.version + 1);
                self.states.insert(of, VersionedState { value: value.clone(), version });
            }
            StateChange::Delete => drop(self.states.remove(&of)),
        }
    }
}

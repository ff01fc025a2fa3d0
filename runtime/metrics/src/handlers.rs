//! What became of the handlers' folder and the manifest: counted when files change, so behind a lock.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gristmill_core::job::Name;

/// Handlers with series of their own; what becomes of others is not counted.
const HANDLERS: usize = 1000;

/// What became of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reload {
    /// For the first time.
    Loaded,
    /// Instead of another version.
    Replaced,
    Refused,
    Removed,
}

pub(super) const RELOADS: [(Reload, &str); 4] = [
    (Reload::Loaded, "loaded"),
    (Reload::Replaced, "replaced"),
    (Reload::Refused, "refused"),
    (Reload::Removed, "removed"),
];

/// What is counted of all handlers.
#[derive(Debug, Default)]
pub(super) struct Handlers(Mutex<BTreeMap<Name, Handler>>);

/// And of one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Handler {
    pub(super) reloads: [u64; RELOADS.len()],
    /// How long the last load took that brought a new version: compiling and linking.
    pub(super) load: Option<Duration>,
}

impl Handlers {
    pub(super) fn count(&self, handler: &Name, reload: Reload, load: Option<Duration>) {
        let mut handlers = self.lock();
        if handlers.len() >= HANDLERS && !handlers.contains_key(handler) {
            return;
        }
        let counted = handlers.entry(handler.clone()).or_default();
        if let Some(count) = counted.reloads.get_mut(reload as usize) {
            *count += 1;
        }
        counted.load = load.or(counted.load);
    }

    pub(super) fn all(&self) -> BTreeMap<Name, Handler> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, Handler>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handlers_beyond_the_bound_are_not_counted() {
        let handlers = Handlers::default();
        let name = |number: usize| format!("h{number}").parse::<Name>().unwrap();
        for number in 0..=HANDLERS {
            handlers.count(&name(number), Reload::Loaded, None);
        }
        handlers.count(&name(0), Reload::Refused, None);
        let all = handlers.all();
        assert_eq!((all.len(), all.contains_key(&name(HANDLERS))), (HANDLERS, false));
        assert_eq!(all[&name(0)].reloads, [1, 0, 1, 0]);
    }
}

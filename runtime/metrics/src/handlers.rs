//! What became of the files in the handlers' folder: counted when files change, so behind a lock.

use std::collections::BTreeMap;
use std::time::Duration;

use gristmill_core::job::Name;
use parking_lot::Mutex;
use strum::{IntoStaticStr, VariantArray};

/// Handlers with series of their own. Reloads of further handlers are not counted.
const HANDLERS: usize = 1000;

/// What became of a component. In lower case it is the label `result`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Reload {
    /// For the first time.
    Loaded,
    /// Instead of another version.
    Replaced,
    /// It failed a check: the version before serves on, if there is one.
    Refused,
    /// Its file is gone.
    Removed,
}

/// The numbers of all handlers.
#[derive(Debug, Default)]
pub(super) struct Handlers(Mutex<BTreeMap<Name, Handler>>);

/// The numbers of one handler.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Handler {
    reloads: [u64; Reload::VARIANTS.len()],
    /// How long it took to compile and link the version that was loaded last.
    pub(super) load: Option<Duration>,
}

impl Handler {
    /// The label `result` with its number.
    pub(super) fn reloads(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Reload::VARIANTS.iter().map(Into::into).zip(self.reloads)
    }
}

impl Handlers {
    pub(super) fn count(&self, handler: &Name, reload: Reload, load: Option<Duration>) {
        let mut handlers = self.0.lock();
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
        self.0.lock().clone()
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

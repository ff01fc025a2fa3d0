//! The handlers whose files have to be compiled, and in which order: those first whose jobs wait.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use gristmill_core::job::{Name, TopicId};

/// The handlers that are compiled or wait for it. The folder adds and removes them; runners say which have jobs that wait.
#[derive(Debug, Default)]
pub struct Backlog(Mutex<BacklogState>);

#[derive(Debug, Default)]
struct BacklogState {
    handlers: BTreeMap<Name, BacklogHandler>,
    demands: u64,
}

#[derive(Debug, Default)]
struct BacklogHandler {
    is_compiling: bool,
    demand: Option<Demand>,
}

/// A tenant has jobs for the handler. Tenants take turns: the first handlers of all tenants go before the second ones.
#[derive(Debug)]
struct Demand {
    tenant: Name,
    turn: usize,
    /// In the order in which demands came.
    number: u64,
}

impl Backlog {
    /// How many handlers are compiled or wait for it.
    pub fn len(&self) -> usize {
        self.0.lock().handlers.len()
    }

    /// Whether nothing is to be compiled.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their names, in order.
    pub fn names(&self) -> Vec<Name> {
        self.0.lock().handlers.keys().cloned().collect()
    }

    /// It waits from now on, also if it was taken.
    pub(super) fn add(&self, handler: &Name) {
        self.0.lock().handlers.entry(handler.clone()).or_default().is_compiling = false;
    }

    pub(super) fn remove(&self, handler: &Name) {
        self.0.lock().handlers.remove(handler);
    }

    /// Jobs of this topic wait for the handler. The first demand for a handler counts.
    pub fn demand(&self, topic: &TopicId, handler: &Name) {
        let BacklogState { handlers, demands } = &mut *self.0.lock();
        if handlers.get(handler).is_none_or(|handler| handler.demand.is_some()) {
            return;
        }
        let of_tenant =
            |handler: &&BacklogHandler| handler.demand.as_ref().is_some_and(|demand| demand.tenant == topic.tenant);
        let turn = handlers.values().filter(of_tenant).count();
        *demands += 1;
        if let Some(handler) = handlers.get_mut(handler) {
            handler.demand = Some(Demand { tenant: topic.tenant.clone(), turn, number: *demands });
        }
    }

    /// The next handler to compile, which counts as compiling from now on: those with jobs first, then by name.
    pub(super) fn take(&self) -> Option<Name> {
        let handlers = &mut self.0.lock().handlers;
        let order = |demand: &Option<Demand>| demand.as_ref().map_or((1, 0, 0), |of| (0, of.turn, of.number));
        let waiting = handlers.iter_mut().filter(|(_, handler)| !handler.is_compiling);
        let (name, handler) = waiting.min_by_key(|(_, handler)| order(&handler.demand))?;
        handler.is_compiling = true;
        Some(name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handlers_with_jobs_come_first_and_tenants_take_turns() {
        let backlog = Backlog::default();
        let name = |name: &str| name.parse::<Name>().unwrap();
        for handler in ["a", "b", "c", "d", "e", "f"] {
            backlog.add(&name(handler));
        }
        for (topic, handler) in
            [("acme/x", "f"), ("acme/y", "e"), ("acme/z", "f"), ("other/x", "d"), ("other/x", "none")]
        {
            backlog.demand(&topic.parse().unwrap(), &name(handler));
        }
        assert_eq!(backlog.take(), Some(name("f")));
        backlog.remove(&name("f"));
        let rest: Vec<String> = std::iter::from_fn(|| backlog.take()).map(String::from).collect();
        assert_eq!(rest, ["d", "e", "a", "b", "c"]);
        assert_eq!(backlog.len(), 5, "they count until they are compiled");
        backlog.demand(&"acme/x".parse().unwrap(), &name("a"));
        backlog.remove(&name("a"));
        backlog.add(&name("a"));
        assert_eq!(backlog.take(), Some(name("a")));
    }
}

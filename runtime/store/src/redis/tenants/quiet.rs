//! Which tenants are worth a look: the many of which there is nothing to find cost one command together, or in a cluster one each.

use std::time::Instant;

use redis::{Value, pipe};

use super::known::Busy;
use crate::StoreError;
use crate::redis::key_names::{Keys, partitions};
use crate::redis::store::Partition;
use gristmill_core::job::Name;

/// Tenants in one command. In a cluster one: no command names keys of several slots.
const TENANTS: usize = 256;

impl Partition {
    /// Whether one of these keys of a tenant may exist, for each tenant. Those that were busy are asked for in any case. Of the others one
    /// command asks for all: if a key of one exists, it may be any of them. Those whose server does not answer may have a key.
    ///
    /// The first command also asks whether a topic is spread, if none was: one server then need not be asked for that separately.
    pub(in crate::redis) async fn may_have<const N: usize>(
        &self,
        doing: &'static str,
        tenants: &[&Name],
        busy: &Busy,
        keys: impl Fn(&Keys) -> [String; N],
    ) -> Result<Vec<bool>, StoreError> {
        let at_once = if self.link.is_cluster() { 1 } else { TENANTS };
        let mut may_have: Vec<bool> = {
            let busy = busy.0.lock();
            tenants.iter().map(|tenant| busy.contains(*tenant)).collect()
        };
        let quiet: Vec<(&mut bool, &Name)> = may_have
            .iter_mut()
            .zip(tenants)
            .filter(|(is_busy, _)| !**is_busy)
            .map(|(one, name)| (one, *name))
            .collect();
        if quiet.is_empty() {
            return Ok(may_have);
        }
        let map = (self.map_age.was_plain() && !self.link.is_cluster()).then(|| partitions(&self.prefix));
        let (mut ask, asked_at) = (pipe(), Instant::now());
        for (number, quiet) in quiet.chunks(at_once).enumerate() {
            ask.cmd("EXISTS").arg(map.as_ref().filter(|_| number == 0));
            for (_, tenant) in quiet {
                ask.arg(&keys(&self.keys(tenant))[..]);
            }
        }
        let existing = self.link.query_each(doing, ask).await?;
        if map.is_some() && existing.first() == Some(&Ok(Value::Int(0))) {
            self.map_age.note(asked_at, true);
        }
        for (position, (may_have, _)) in quiet.into_iter().enumerate() {
            *may_have = existing.get(position / at_once).is_none_or(|existing| *existing != Ok(Value::Int(0)));
        }
        Ok(may_have)
    }
}

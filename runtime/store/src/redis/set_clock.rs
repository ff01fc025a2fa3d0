//! The server's clock was set back: what waits is moved by the step, so that it waits for as long as before. What was asked for at a point in
//! time waits for that. What expires by itself lasts longer by the step.

use std::time::Duration;

use redis::pipe;

use super::keys;
use super::partitions::RedisStore;
use super::script::{Call, script};
use super::store::Partition;
use crate::StoreError;
use crate::clock::wait_ms;
use gristmill_core::job::Name;

const DOING: &str = "move what waits by a step of the clock";

/// A step back of the server's clock.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// Grows from step to step. Each key is moved once by each.
    number: u64,
    back_ms: u64,
}

impl RedisStore {
    /// Moves what waits in all tenants. Every runner that notices the step does it, and each key is moved once.
    pub(super) async fn follow_set_clock(&self, back: Duration) -> Result<(), StoreError> {
        let mut call = Call::new(script!("note_step.lua"), &[keys::clock(&self.server.prefix)]);
        call.arg(self.server.now_argument()).arg(wait_ms(back));
        let first = self.first();
        let mut reply = first.reply(DOING, call).await?;
        let mut number = || reply.number().map_err(self.server.misread(DOING));
        let step = Step { number: number()?, back_ms: number()? };
        let map = self.map().await?;
        for tenant in self.server.listed_tenants(DOING, |tenant| map.of_tenant(tenant)).await? {
            for number in 0..map.of_tenant(&tenant) {
                match self.partition(number).follow_set_clock(&tenant, step).await {
                    Err(error) if !error.is_unavailable() => {
                        tracing::error!(%tenant, "the server's clock was set, and what waits cannot be moved: {error:#}");
                    }
                    answer => answer?,
                }
            }
            first.mend_schedules(&tenant).await?;
        }
        Ok(())
    }
}

impl Partition {
    async fn follow_set_clock(&self, tenant: &Name, step: Step) -> Result<(), StoreError> {
        let keys = self.keys(tenant);
        let (topics,): (Vec<String>,) =
            self.link.query(DOING, pipe().cmd("ZRANGE").arg(keys.topics()).arg(0).arg(-1)).await?;
        let names =
            [keys.clock(), keys.leases(), keys.extended(), keys.limited(), keys.due(), keys.topics(), keys.raw()];
        let mut all =
            Call::new(script!("lower.lua", "set_clock.lua"), &[&names[..], &[keys.rates(), keys.key_rates()]].concat());
        all.arg(step.number).arg(step.back_ms);
        let of_topic = |topic: Name| {
            let [windows, unique] = [keys.windows(&topic), keys.unique(&topic)];
            let names =
                [keys.clock(), keys.jobs(), keys.delayed(&topic), keys.dead(&topic), windows, unique, keys.due()];
            let mut call = Call::new(script!("lower.lua", "set_topics_clock.lua"), &names);
            call.arg(topic.as_str()).arg(step.number).arg(step.back_ms);
            call
        };
        let topics = topics.iter().filter_map(|topic| topic.parse().ok()).map(of_topic);
        // First what says when topics are looked at.
        self.link.run(DOING, [all].into_iter().chain(topics).collect()).await.map(drop)
    }
}

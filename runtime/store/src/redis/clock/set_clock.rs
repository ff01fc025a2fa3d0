//! The server's clock was set: the runner moves what waits by the step, so that it waits for as long as before. What was asked for at a point in
//! time waits for that time. Keys that Redis expires last longer or shorter by the step.

use std::time::Duration;

use redis::pipe;
use serde::Serialize;

use crate::StoreError;
use crate::clock_step::{ClockStep, Followed, Move};
use crate::redis::key_names;
use crate::redis::partitions::RedisStore;
use crate::redis::script::{Call, script};
use crate::redis::store::Partition;
use gristmill_core::job::Name;

const DOING: &str = "move what waits by a step of the clock";

/// Runners notice the same step within this time, by the clock that was set.
const SAME_FOR: Duration = Duration::from_secs(30);

/// A step of the server's clock as it is noted for all runners.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// Grows from step to step. Each key is moved once by each.
    number: u64,
    step: ClockStep,
    moves: Move,
}

impl RedisStore {
    /// Moves what waits in all tenants. Every runner that notices the step does it, and each key is moved once. Returns by how much.
    pub(in crate::redis) async fn follow_set_clock(&self, step: ClockStep) -> Result<Move, StoreError> {
        let step = self.noted(step).await?;
        if step.moves.is_none() {
            return Ok(step.moves);
        }
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
            self.first().mend_schedules(&tenant).await?;
        }
        Ok(step.moves)
    }

    /// The step as the first runner that noticed it has noted it.
    async fn noted(&self, step: ClockStep) -> Result<Step, StoreError> {
        type Noted = (Option<u64>, Option<String>, Option<String>);
        let key = key_names::clock(&self.server.prefix);
        let mut look = pipe();
        look.cmd("HMGET").arg(&key).arg("number").arg("step").arg("move");
        loop {
            let ((number, last, moves),): (Noted,) = self.server.link.query(DOING, &look).await?;
            let number = number.unwrap_or_default();
            let last: Option<Followed> = last.and_then(|text| serde_json::from_str(&text).ok());
            let moves: Option<Move> = moves.and_then(|text| serde_json::from_str(&text).ok());
            if let Some((last, moves)) = last.zip(moves)
                && last.step.is_nearly(step, SAME_FOR)
            {
                return Ok(Step { number, step: last.step, moves });
            }
            let moves = step.moves(last);
            let mut call = Call::new(script!("clock/note_step.lua"), std::slice::from_ref(&key));
            call.arg(number).arg(json(&Followed { step, moved_ms: moves.ms })).arg(json(&moves));
            let mut reply = self.first().reply(DOING, call).await?;
            if reply.number().map_err(self.server.misread(DOING))? == 1 {
                return Ok(Step { number: number + 1, step, moves });
            }
        }
    }
}

/// Of numbers only.
fn json(of: &impl Serialize) -> String {
    serde_json::to_string(of).unwrap_or_default()
}

impl Partition {
    async fn follow_set_clock(&self, tenant: &Name, step: Step) -> Result<(), StoreError> {
        let keys = self.keys(tenant);
        let Step { number, step: ClockStep { from, to }, moves: Move { ms, earlier, earlier_ms } } = step;
        let (topics,): (Vec<String>,) =
            self.link.query(DOING, pipe().cmd("ZRANGE").arg(keys.topics()).arg(0).arg(-1)).await?;
        let names =
            [keys.clock(), keys.leases(), keys.extended(), keys.limited(), keys.due(), keys.topics(), keys.raw()];
        let mut all = Call::new(
            script!("clock/shift.lua", "clock/set_clock.lua"),
            &[&names[..], &[keys.rates(), keys.key_rates()]].concat(),
        );
        all.arg(self.now_argument()).arg(number).arg(ms);
        let of_topic = |topic: Name| {
            let [delayed, dead] = [keys.delayed(&topic), keys.dead(&topic)];
            let [windows, unique] = [keys.windows(&topic), keys.unique(&topic)];
            let names = [keys.clock(), keys.jobs(), delayed, dead, windows, unique, keys.due(), keys.claims()];
            let mut call = Call::new(script!("clock/shift.lua", "clock/set_topics_clock.lua"), &names);
            call.arg(self.now_argument()).arg(topic.as_str()).arg(number).arg(ms);
            call.arg(from.as_millis()).arg(to.as_millis()).arg(earlier.as_millis()).arg(earlier_ms);
            call
        };
        let topics = topics.iter().filter_map(|topic| topic.parse().ok()).map(of_topic);
        // First what says when topics are looked at.
        self.link.run(DOING, [all].into_iter().chain(topics).collect()).await.map(drop)
    }
}

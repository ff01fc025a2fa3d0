//! What is done to a topic as a whole: its jobs are no longer handed out, or are again; it is forgotten.

use super::script::{Call, script};
use super::store::Partition;
use crate::StoreError;
use gristmill_core::job::TopicId;
use gristmill_core::outcome::Reason;

/// What the scripts count of a topic, besides `running` and how jobs died.
const TOTALS: &[&str] = &[
    "pushed",
    "adopted",
    "acked",
    "retried",
    "snoozed",
    "released",
    "duplicate",
    "stray",
    "expired",
    "cancelled",
    "discarded",
];

impl Partition {
    pub(super) async fn set_paused(&self, topic: &TopicId, paused: bool, by: Option<&str>) -> Result<bool, StoreError> {
        let keys = self.keys(&topic.tenant);
        let mut names = keys.waiting();
        names.extend(keys.row(&topic.topic));
        names.push(keys.pauses());
        let mut call = Call::new(script!("keys/line.lua", "keys/waiting.lua", "pause/pause.lua"), &names);
        call.arg(self.now_argument()).arg(keys.wake_channel()).arg(topic.topic.as_str()).arg(u8::from(paused));
        call.arg(by.unwrap_or_default());
        self.is_one("pause a topic", call).await
    }

    pub(super) async fn forget_topic(&self, topic: &TopicId) -> Result<bool, StoreError> {
        let keys = self.keys(&topic.tenant);
        let mut names = keys.with_rows([], [&topic.topic]);
        names.extend([keys.turns(), keys.strays(&topic.topic), keys.limited(), keys.rates()]);
        names.extend([keys.ended(&topic.topic), keys.pauses()]);
        names.extend([keys.recordings(&topic.topic), keys.recorded(&topic.topic)]);
        let mut call = Call::new(script!("keys/line.lua", "keys/waiting.lua", "pause/forget_topic.lua"), &names);
        call.arg(self.now_argument()).arg(topic.topic.as_str()).arg(TOTALS);
        call.arg(Reason::ALL.iter().map(|reason| format!("dead-{reason}")).collect::<Vec<_>>());
        self.is_one("forget a topic", call).await
    }
}

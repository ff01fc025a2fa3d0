//! Several stores at once: who lives where, what one that is away does to the others, and tenants that move while they work.

mod away;
mod list;
mod moving;
mod residents;

use std::collections::BTreeMap;
use std::sync::Arc;

use gristmill_core::job::{Due, JobSpec, Name, NewJob, Payload, TopicId};
use gristmill_store::embedded::EmbeddedStore;
use gristmill_store::sharded::{ShardSpec, ShardedStore};
use gristmill_store::{Inspect, TopicCounts, Transfer};
use gristmill_store_tests::test_store::part;

/// The home store and another one, joined: `acme` lives in the other.
struct Pair {
    home: EmbeddedStore,
    other: EmbeddedStore,
    several: ShardedStore,
}

impl Pair {
    async fn new() -> Self {
        let (home, other) = (EmbeddedStore::in_memory().await.unwrap(), EmbeddedStore::in_memory().await.unwrap());
        let several = join(&home, part("other", &other)).await;
        Self { home, other, several }
    }
}

async fn join(home: &EmbeddedStore, other: ShardSpec) -> ShardedStore {
    let placements = BTreeMap::from([(name("acme"), other.name.clone())]);
    ShardedStore::open(part("home", home), Arc::new(home.clone()), vec![other], placements).await.unwrap()
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn topic(text: &str) -> TopicId {
    text.parse().unwrap()
}

fn job(of: &str) -> NewJob {
    let body = Payload { data: b"x".to_vec(), content_type: None };
    NewJob { spec: JobSpec::new(topic(of), body), due: Due::Now }
}

/// Ready, delayed, running and dead jobs of a topic.
async fn places(store: &(impl Transfer + ?Sized), of: &str) -> [u64; 4] {
    counts(store, of).await.map_or([0; 4], |counts| [counts.ready, counts.delayed, counts.running, counts.dead])
}

async fn counts(store: &(impl Inspect + ?Sized), of: &str) -> Option<TopicCounts> {
    let counts = store.counts(&topic(of).tenant).await.unwrap();
    counts.into_iter().find(|counts| counts.topic == topic(of))
}

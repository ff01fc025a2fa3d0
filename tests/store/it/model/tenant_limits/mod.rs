//! Limits that hold for all topics of a tenant together, and rates of topics, in a store and in a plain model of them.
//!
//! They have sequences of their own, in which whatever is due is done after each step: where a topic waits until a job of another one ends,
//! it may take a store some time to say that it need not wait any more.

mod operations;
mod plain;
mod world;

use gristmill_store_tests::deployment::RedisKind;
use gristmill_store_tests::test_store::Kind;
use operations::{Operation, sequences};
use world::World;

use super::search;
use super::side::Difference;

#[test]
fn redis_behaves_like_the_model() {
    compare(Kind::REDIS, 25);
}

#[test]
fn a_clustered_redis_behaves_like_the_model() {
    compare(Kind::Redis(RedisKind::Cluster), 10);
}

#[test]
fn two_shards_of_different_kinds_behave_like_the_model() {
    compare(Kind::ShardedStore, 10);
}

#[test]
fn a_file_behaves_like_the_model() {
    compare(Kind::File, 25);
}

#[test]
fn memory_behaves_like_the_model() {
    compare(Kind::Memory, 25);
}

fn compare(kind: Kind, sequences_by_default: u64) {
    search(kind, sequences_by_default, sequences(), async |operations| try_to_play(kind, operations).await);
}

async fn try_to_play(kind: Kind, operations: &[Operation]) -> Result<(), Difference> {
    let mut world = World::new(kind).await;
    for (place, operation) in operations.iter().enumerate() {
        world.step(operation).await.map_err(|difference| difference.in_step(place))?;
    }
    world.end().await
}

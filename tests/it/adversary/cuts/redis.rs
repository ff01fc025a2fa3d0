//! The connection to Redis, cut before and after every command.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use gristmill::store::Clock;
use gristmill::store::redis::RedisStore;
use gristmill_tests::redis::Redis;

use super::proxy::{Cut, Proxy, Seen};
use super::scenario::World;

/// As the clock of the conformance suite.
const BEGIN_MS: u64 = 1_800_000_000_000;

/// Plays the scenario on a store of its own, and holds it to what it acknowledged. What the proxy saw of the scenario.
async fn play(proxy: &Proxy, prefix: &str, cut: Option<Cut>) -> Seen {
    let clock = Arc::new(AtomicU64::new(BEGIN_MS));
    let store = RedisStore::connect(&proxy.url(), prefix).await.unwrap().with_clock(Clock::Manual(Arc::clone(&clock)));
    let mut world = World::new(Arc::new(store), clock);
    proxy.cut(cut);
    world.play().await;
    let seen = proxy.seen();
    assert_eq!(seen.was_cut, cut.is_some(), "{cut:?} was not reached by {} commands", seen.commands);
    world.assert_all_end_once(0).await;
    seen
}

#[tokio::test]
async fn a_connection_cut_at_any_command_loses_nothing_and_repeats_nothing() {
    let redis = Redis::start_without_log().await;
    let socket = PathBuf::from(redis.url().trim_start_matches("redis+unix://"));
    let proxy = Proxy::start(&socket).await;
    let whole = play(&proxy, "whole", None).await;
    for command in 1..=whole.commands {
        for cut in [Cut::Before(command), Cut::After(command)] {
            play(&proxy, &format!("{cut:?}").replace(['(', ')'], "-"), Some(cut)).await;
        }
    }
    println!(
        "| cuts of the connection to Redis | {} commands of {} scripts, each cut before and after | 0 lost, 0 repeated | yes |",
        whole.commands,
        whole.scripts.len()
    );
}

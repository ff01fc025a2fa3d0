//! The connection to Redis, cut before and after every command.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use gristmill_store::redis::RedisStore;
use gristmill_store::{Clock, ManualClock};
use gristmill_test_servers::redis::Redis;

use super::cutter::{Cut, Cutter, Seen};
use super::scenario::{PARTS, Part, World};
use super::server::Server;
use crate::redis_sources::redis_sources;

/// As the clock of the conformance suite.
const BEGIN_MS: u64 = 1_800_000_000_000;

/// Of the store's keys.
fn prefix(cut: Option<Cut>) -> String {
    cut.map_or("whole".into(), |cut| format!("{cut:?}").replace(['(', ')'], "-"))
}

/// What earlier runs left. The search for damage looks at all keys of the server, and hundreds of runs leave many.
async fn forget(redis: &Redis) {
    redis.ask::<String>("FLUSHALL", &[]).await.expect("Redis forgets all keys");
}

/// Plays a part of the scenario on a store of its own, and holds it to what it acknowledged. What was seen of the part.
async fn play(redis: &Arc<Redis>, cutter: &Cutter, part: Part, cut: Option<Cut>) -> Seen {
    let prefix = &prefix(cut);
    forget(redis).await;
    let clock = Arc::new(ManualClock::new(BEGIN_MS));
    let store = RedisStore::connect(&cutter.proxy.url(), prefix).await.unwrap();
    let store = store.with_clock(Clock::Manual(Arc::clone(&clock)));
    let mut world = World::new(Arc::new(store), clock);
    world.server = Some(Server { redis: Arc::clone(redis), prefix: prefix.into() });
    cutter.cut(cut);
    world.play_part(part).await;
    let seen = cutter.seen();
    assert_eq!(seen.was_cut, cut.is_some(), "{part:?}: {cut:?} was not reached by {} commands", seen.commands);
    world.assert_all_end_once(0).await;
    seen
}

/// Where the connection is cut at a command: by turns before it and after it, and with `GRISTMILL_TEST_CUTS=all` both, which takes
/// twice as long.
fn cuts_of(command: u64) -> Vec<Cut> {
    let cuts = [Cut::Before(command), Cut::After(command)];
    match std::env::var("GRISTMILL_TEST_CUTS").as_deref() {
        Ok("all") => cuts.into(),
        _ => vec![cuts[usize::from(command.is_multiple_of(2))]],
    }
}

/// Files of the store's scripts of which no script has the text that Redis was taught. A script is put together from whole files.
fn unvisited(taught: &BTreeSet<String>) -> Vec<String> {
    let is_script = |path: &Path| path.extension().is_some_and(|extension| extension == "lua");
    let is_visited = |text: &str| taught.iter().any(|script| script.contains(text));
    let unvisited = redis_sources().into_iter().filter(|(path, text)| is_script(path) && !is_visited(text));
    let mut names: Vec<_> =
        unvisited.map(|(path, _)| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Plays the part of the scenario that is about partitions, and has another process find what this one has left.
async fn play_spread(redis: &Redis, cutter: &Cutter, cut: Option<Cut>) -> Seen {
    let prefix = &prefix(cut);
    forget(redis).await;
    let clock = Arc::new(ManualClock::new(BEGIN_MS));
    let open = async |url: &str| {
        let store = RedisStore::connect(url, prefix).await.unwrap();
        Arc::new(store.with_clock(Clock::Manual(Arc::clone(&clock))).all_spread(3))
    };
    let mut world = World::new(open(&cutter.proxy.url()).await, Arc::clone(&clock));
    cutter.cut(cut);
    world.follow_ups_elsewhere().await;
    let seen = cutter.seen();
    assert_eq!(seen.was_cut, cut.is_some(), "{cut:?} was not reached by {} commands", seen.commands);
    world.store = open(&redis.url()).await;
    world.assert_all_end_once(0).await;
    seen
}

#[tokio::test]
async fn a_connection_cut_at_any_command_loses_no_follow_up_job_of_another_partition() {
    let redis = Redis::start_without_log().await;
    let cutter = Cutter::start(&redis).await;
    let whole = play_spread(&redis, &cutter, None).await;
    for command in 1..=whole.commands {
        for cut in [Cut::Before(command), Cut::After(command)] {
            play_spread(&redis, &cutter, Some(cut)).await;
        }
    }
    println!(
        "| cuts of the connection to Redis, partitions | {} commands, each cut before and after | 0 lost, 0 repeated | yes |",
        whole.commands
    );
}

#[tokio::test]
async fn a_connection_cut_at_any_command_loses_nothing_and_repeats_nothing() {
    let redis = Arc::new(Redis::start_without_log().await);
    let cutter = Cutter::start(&redis).await;
    let (mut commands, mut taught) = (0, BTreeSet::new());
    // Part by part: each of its commands is another run of it.
    for part in PARTS {
        let whole = play(&redis, &cutter, part, None).await;
        for command in 1..=whole.commands {
            for cut in cuts_of(command) {
                play(&redis, &cutter, part, Some(cut)).await;
            }
        }
        commands += whole.commands;
        taught.extend(whole.taught);
    }
    // A runner waits for topics once it has subscribed, which is more than one reply and so not for the proxy. It changes no job.
    // What a connection asks for first comes before the cuts. The scenario spreads no topic over partitions; the two scripts for that change no job either. Its part about partitions is
    // played by itself. What looks for damage changes nothing. Hundreds of links are needed before a script leaves some to `carry`, and the
    // scripts about a clock that was set are for runners that see it: `conformance` has both, without cuts.
    let left_out = [
        "carry.lua",
        "look_up.lua",
        "note_step.lua",
        "rights.lua",
        "set_clock.lua",
        "set_topics_clock.lua",
        "shift.lua",
        "spread.lua",
        "wait_for_topics.lua",
    ];
    let unvisited: Vec<String> = unvisited(&taught).into_iter().filter(|file| !file.starts_with("fsck_")).collect();
    assert_eq!(unvisited, left_out, "the scenario visits every other script of the store");
    println!(
        "| cuts of the connection to Redis | {commands} commands of {} scripts, cut by turns before and after | 0 lost, 0 repeated | yes |",
        taught.len()
    );
}

//! The server dies, comes back, forgets its scripts, or is replaced by another.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::leftovers::limits;
use super::server::{TestRedis, until};
use crate::prelude::*;
use crate::redis::{DEFAULT_PREFIX, RedisStore};
use crate::tests::{LEASE, delayed, failure, job, retry, tenant, topic, worker};
use crate::{Cancelled, Settled, Settlement, Signal, StoreError};
use gristmill_core::job::{Claim, NewJob};
use gristmill_core::outcome::{Reason, Verdict};
use gristmill_core::token::TokenRequirement;

#[tokio::test]
async fn a_lost_server_is_away_at_once_and_found_again() {
    let mut store = TestRedis::new().await;
    store.push(&[job("mail")]).await;
    store.server.kill();
    for jobs in [[job("mail")], [job("mail")], [job("mail")]] {
        let push = timeout(Duration::from_secs(5), store.store.push(&jobs));
        assert!(push.await.expect("an answer well before any timeout").unwrap_err().is_unavailable());
    }
    store.server.replace().await;
    until("the store answers", async || store.store.heartbeat(&worker()).await.is_ok()).await;
    // The new server knows no script yet.
    store.push(&[job("mail")]).await;
    let claim = store.claim(1).await.pop().unwrap();
    assert_eq!(store.settle(&claim, Verdict::Ack(None)).await, Settled::Done);
}

#[tokio::test]
async fn a_call_in_flight_fails_when_the_server_dies() {
    let mut store = TestRedis::new().await;
    let clone = store.store.clone();
    store.raw(redis::cmd("CLIENT").arg("PAUSE").arg(60_000)).await;
    let call = tokio::spawn(async move { clone.push(&[job("mail")]).await });
    // The paused server answers no call, so wherever the call has got to by now, it is not done.
    tokio::task::yield_now().await;
    store.server.kill();
    let answer = timeout(Duration::from_secs(4), call).await.expect("an answer before the response timeout").unwrap();
    assert!(answer.unwrap_err().is_unavailable());
}

#[tokio::test]
async fn forgotten_scripts_are_loaded_again() {
    let store = TestRedis::new().await;
    store.push(&[job("mail"), job("mail")]).await;
    store.raw(redis::cmd("SCRIPT").arg("FLUSH")).await;
    store.push(&(0..1200).map(|_| job("mail")).collect::<Vec<_>>()).await;
    store.raw(redis::cmd("SCRIPT").arg("FLUSH")).await;
    assert_eq!(store.claim(2000).await.len(), 1202);
}

#[tokio::test]
async fn scripts_that_are_forgotten_again_and_again_refuse_nothing() {
    let store = TestRedis::new().await;
    let mut other = store.server.connect().await.unwrap();
    let forgetting =
        tokio::spawn(
            async move { while redis::cmd("SCRIPT").arg("FLUSH").query_async::<()>(&mut other).await.is_ok() {} },
        );
    for _ in 0..200 {
        store.push(&[job("mail"), job("mail")]).await;
        for claim in store.claim(2).await {
            assert_eq!(store.settle(&claim, Verdict::Ack(None)).await, Settled::Done);
        }
    }
    assert!(!forgetting.is_finished(), "scripts were forgotten all the time");
    forgetting.abort();
    assert_eq!((store.total("pushed").await, store.total("acked").await), (400, 400));
}

#[tokio::test]
async fn a_server_that_knows_no_script_is_taught_before_the_first_call() {
    let store = TestRedis::new().await;
    let jobs: Vec<NewJob> = (0..1200).map(|_| job("mail")).collect();
    store.push(&jobs).await;
    assert_eq!(store.claim(2000).await.len(), 1200);
    // Were its first calls refused, and only those, they would be repeated behind the others: not in their order.
    let refused = store.raw(redis::cmd("INFO").arg("errorstats")).await;
    let refused: String = redis::from_redis_value(refused).unwrap();
    assert!(!refused.contains("NOSCRIPT"), "{refused}");
}

#[tokio::test]
async fn a_listener_reconnects_and_says_that_signals_may_be_lost() {
    let mut store = TestRedis::new().await;
    let mut signals = store.store.signals(&[tenant()]).await.unwrap();
    store.server.replace().await;
    let received = timeout(Duration::from_secs(30), signals.recv()).await.expect("a signal in time");
    assert_eq!(received, Some(Signal::Lost));
    until("the store answers", async || store.store.push(&[job("mail")]).await.is_ok()).await;
    let received = timeout(Duration::from_secs(30), signals.recv()).await.expect("a signal in time");
    assert!(matches!(received, Some(Signal::Ready(_))), "{received:?}");
}

#[tokio::test]
async fn a_store_that_was_emptied_is_the_same_store() {
    let store = TestRedis::new().await;
    let id = store.store.store_id().await.unwrap();
    store.raw(redis::cmd("FLUSHALL").arg("SYNC")).await;
    store.store.heartbeat(&worker()).await.unwrap();
    store.push(&[job("mail")]).await;
    assert_eq!(store.store.store_id().await.unwrap(), id);
    let another = RedisStore::connect(&store.server.url(), DEFAULT_PREFIX).await.unwrap();
    assert_eq!(another.store_id().await.unwrap(), id);
}

#[tokio::test]
async fn another_store_behind_the_same_address_gets_nothing() {
    let mut store = TestRedis::new().await;
    let id = store.store.store_id().await.unwrap();
    for is_new_connection in [false, true] {
        if is_new_connection {
            store.server.replace().await;
        }
        store.raw_beside(redis::cmd("SET").arg("gm:id").arg("of another store")).await;
        until("the other store to be noticed", async || store.store.heartbeat(&worker()).await.is_err()).await;
        let error = store.store.push(&[job("mail")]).await.unwrap_err();
        assert!(error.is_unavailable(), "{error:?}");
        let error = format!("{:#}", anyhow::Error::from(error));
        assert!(error.contains("another store is there now") && error.contains(id.as_str()), "{error}");
        store.raw_beside(redis::cmd("SET").arg("gm:id").arg(id.as_str())).await;
        until("the store to be back", async || store.store.push(&[job("mail")]).await.is_ok()).await;
    }
}

#[tokio::test]
async fn a_full_server_refuses_and_nothing_is_half_done() {
    let store = TestRedis::new().await;
    store.push(&[job("mail")]).await;
    store.raw(redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(1)).await;
    let error = store.store.push(&[job("mail")]).await.unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    let counts = store.counts("mail").await;
    assert_eq!((counts.ready, counts.totals["pushed"]), (1, 1));
    store.raw(redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(0)).await;
    assert_eq!(store.claim(9).await.len(), 1);
}

#[tokio::test]
async fn a_full_server_lets_its_jobs_be_worked_off() {
    let store = TestRedis::new().await;
    store.push(&[job("mail"), delayed("mail", 10)]).await;
    store.raw(redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(1)).await;

    store.store.heartbeat(&worker()).await.unwrap();
    let claim = store.claim(1).await.pop().unwrap();
    assert_eq!(store.store.extend(std::slice::from_ref(&claim.lease), LEASE).await.unwrap(), [true]);
    store.pass(10);
    assert_eq!(store.migrate().await, 1);
    assert_eq!(store.settle(&claim, retry(0)).await, Settled::Done);
    for claim in store.claim(2).await {
        assert_eq!(store.settle(&claim, Verdict::Ack(None)).await, Settled::Done);
    }
    assert_eq!(store.total("acked").await, 2);
}

/// A runner that cannot start makes no room.
#[tokio::test]
async fn a_full_server_answers_to_what_a_runner_asks_as_it_starts() {
    let store = TestRedis::new().await;
    store.push(&[job("mail")]).await;
    let id = store.store.store_id().await.unwrap();
    store.raw(redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(1)).await;
    let other = RedisStore::connect(&store.server.url(), DEFAULT_PREFIX).await.unwrap();
    assert_eq!(other.store_id().await.unwrap(), id);
    assert_eq!(other.token_requirement().await.unwrap(), TokenRequirement::NeverSet);
    assert_eq!(other.offer_schedules(&tenant(), &[]).await.unwrap(), []);
    assert_eq!(other.fsck().await.unwrap().findings, []);
}

#[tokio::test]
async fn a_full_server_lets_people_clear_it_out() {
    let store = TestRedis::new().await;
    let waiting = delayed("mail", 10);
    store.push(&[job("mail"), job("mail"), waiting.clone()]).await;
    let claims = store.claim(2).await;
    store.raw(redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(1)).await;

    assert_eq!(store.settle(&claims[0], Verdict::Bury(failure(Reason::Trap))).await, Settled::Done);
    let ids = [waiting.spec.id, claims[1].lease.job.clone()];
    assert_eq!(store.store.cancel(&tenant(), &ids).await.unwrap(), [Cancelled::Gone, Cancelled::Stopping]);
    assert_eq!(store.settle(&claims[1], retry(0)).await, Settled::Cancelled);
    assert_eq!(store.store.sweep(&[limits(0)]).await.unwrap(), [1]);
    assert!(store.store.set_paused(&topic("mail"), true).await.unwrap());
    let mail = topic("mail").topic;
    assert_eq!(store.poll(&[mail]).await.next_due_in, None);
    assert_eq!((store.total("cancelled").await, store.total("discarded").await), (2, 1));
}

#[tokio::test]
async fn a_probe_fails_as_a_push_does() {
    let store = TestRedis::new().await;
    let command = async |text: &str| {
        let mut words = text.split(' ');
        let mut command = redis::cmd(words.next().unwrap());
        store.raw(command.arg(words.collect::<Vec<_>>())).await
    };
    store.store.probe().await.unwrap();
    assert_eq!(command("KEYS *").await, redis::Value::Array(vec![redis::Value::BulkString(b"gm:format".into())]));
    for [refuse, accept] in [
        ["CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"],
        ["CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"],
        ["REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"],
    ] {
        command(refuse).await;
        let [pushed, probed] = [store.store.push(&[job("mail")]).await.map(drop), store.store.probe().await];
        assert_eq!(probed.unwrap_err().to_string(), pushed.unwrap_err().to_string(), "{refuse}");
        let beat = store.store.heartbeat(&worker()).await;
        assert!(beat.is_ok() || beat.unwrap_err().is_unavailable(), "plain commands, and refused as scripts are");
        command(accept).await;
        store.store.probe().await.unwrap();
    }
}

/// A store whose connection breaks off behind each call that names [`CUT`], before its reply.
async fn cut_after_reply(server: &str, folder: &std::path::Path) -> RedisStore {
    let (path, server) = (folder.join("cut.sock"), server.trim_start_matches("redis+unix://").to_owned());
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut server = tokio::net::UnixStream::connect(&server).await.unwrap();
            tokio::spawn(async move {
                let (mut from_client, mut to_client) = client.split();
                let (mut from_server, mut to_server) = server.split();
                let mut asked = Vec::new();
                let mut buffer = [0; 65_536];
                let mut reply = [0; 65_536];
                loop {
                    tokio::select! {
                        Ok(n) = from_client.read(&mut buffer) => {
                            if n == 0 { return; }
                            asked = buffer[..n].to_vec();
                            to_server.write_all(&asked).await.unwrap();
                        }
                        Ok(n) = from_server.read(&mut reply) => {
                            // What was asked is done; its reply never arrives.
                            if n == 0 || asked.windows(CUT.len()).any(|word| word == CUT) { return; }
                            to_client.write_all(&reply[..n]).await.unwrap();
                        }
                    }
                }
            });
        }
    });
    RedisStore::connect(&format!("unix:{}", path.display()), "gm").await.unwrap()
}

/// A call that names this is cut off from its reply.
const CUT: &[u8] = b"cut-here";

#[tokio::test]
async fn a_settlement_whose_reply_was_lost_has_its_answer_when_it_is_settled_again() {
    let store = TestRedis::new().await;
    let folder = tempfile::tempdir().unwrap();
    let cut = cut_after_reply(&store.server.url(), folder.path()).await;
    for (verdict, left) in [(Verdict::Ack(None), 0), (retry(0), 1), (Verdict::Release(Duration::ZERO), 2)] {
        let marked = crate::tests::with("mail", |spec| spec.id = format!("cut-here-{left}").parse().unwrap());
        store.push(&[marked, job("mail"), job("mail")]).await;
        let claims = store.claim(3).await;
        let settlement = |claim: &Claim| Settlement::new(claim.lease.clone(), verdict.clone());
        let settlements: Vec<_> = claims.iter().map(settlement).collect();
        // Lost to another delivery already: it is answered so both times.
        assert_eq!(store.settle(&claims[2], Verdict::Ack(None)).await, Settled::Done);
        for _ in 0..2 {
            assert!(cut.settle(&settlements).await.unwrap_err().is_unavailable());
        }
        // One by one, as after a refusal; the others through a connection that holds.
        let answers = [cut.settle(&settlements[1..2]).await.unwrap(), cut.settle(&settlements[2..]).await.unwrap()];
        assert_eq!(answers.concat(), [Settled::Done, Settled::LeaseLost], "{}", verdict.name());
        assert_eq!(cut.settle(&settlements[1..2]).await.unwrap(), [Settled::LeaseLost], "settled once more");
        assert_eq!(store.store.settle(&settlements[..1]).await.unwrap(), [Settled::LeaseLost], "by another process");
        for claim in store.claim(9).await {
            store.settle(&claim, Verdict::Ack(None)).await;
        }
    }
}

#[tokio::test]
async fn a_user_who_sees_no_settings_may_connect() {
    let store = TestRedis::new().await;
    let rights = ["SETUSER", "gm", "on", ">pw", "~gm:*", "&gm:*", "+@all", "-@dangerous"];
    store.raw(redis::cmd("ACL").arg(&rights)).await;
    let limited = RedisStore::connect(&format!("{}?user=gm&pass=pw", store.server.url()), "gm").await.unwrap();
    limited.warn_of_risks().await;
    limited.probe().await.unwrap();
}

#[tokio::test]
async fn a_missing_right_is_named_with_what_to_do() {
    let store = TestRedis::new().await;
    let rights = ["SETUSER", "gm", "on", ">pw", "~gm:*", "&gm:*", "+@all", "-lpush", "-publish"];
    store.raw(redis::cmd("ACL").arg(&rights)).await;
    let url = format!("{}?user=gm&pass=pw", store.server.url());
    let limited = |prefix: &'static str| RedisStore::connect(&url, prefix);
    let text = |error: StoreError| {
        assert!(error.is_unavailable(), "{error:?}");
        format!("{:#}", anyhow::Error::from(error))
    };
    let error = text(limited("gm").await.unwrap_err());
    assert!(error.contains("'publish'") && error.contains("docs/guides/operating.md"), "{error}");

    let may = async |word: &str| drop(store.raw(redis::cmd("ACL").arg(&["SETUSER", "gm", word])).await);
    may("+publish").await;
    // Before anything is written: a script that is refused a command would end in the midst, and have stored a job in no List.
    may("-zadd").await;
    let error = text(limited("gm").await.unwrap_err());
    assert!(error.contains("'lpush', 'zadd'") && error.contains("docs/guides/operating.md"), "{error}");
    may("+zadd").await;
    may("+lpush").await;
    for command in ["multi", "exec", "eval"] {
        may(&format!("-{command}")).await;
        let error = text(limited("gm").await.unwrap_err());
        assert!(error.contains(&format!("'{command}'")) && error.contains("docs/guides/operating.md"), "{error}");
        may(&format!("+{command}")).await;
    }
    let connected = limited("gm").await.unwrap();
    may("-lpush").await;
    let error = text(connected.push(&[job("mail")]).await.unwrap_err());
    assert!(error.contains("can't run this command") && error.contains("docs/guides/operating.md"), "{error}");
    may("+lpush").await;

    store.raw(redis::cmd("ACL").arg(&["SETUSER", "gm", "&other:*"])).await;
    let error = text(limited("other").await.unwrap_err());
    assert!(error.contains("key") && error.contains("`~gm:*`"), "{error}");
}

#[tokio::test]
async fn a_prefix_that_breaks_the_hash_tags_is_refused() {
    let error = RedisStore::connect("redis://localhost", "gm{x}").await.unwrap_err();
    assert!(matches!(error, StoreError::BadAddress { .. }), "{error}");
}

#[tokio::test]
async fn keys_in_another_format_are_refused() {
    let store = TestRedis::new().await;
    assert_eq!(store.raw(redis::cmd("GET").arg("gm:format")).await, redis::Value::BulkString(b"2".into()));
    store.raw(redis::cmd("SET").arg("gm:format").arg("9")).await;
    let error = RedisStore::connect(&store.server.url(), "gm").await.unwrap_err();
    let StoreError::Refused { source, .. } = &error else { panic!("{error}") };
    assert_eq!(
        source.to_string(),
        "its keys are in format \"9\", and this version knows format 2; use the version that wrote them, or another prefix"
    );
    RedisStore::connect(&store.server.url(), "other").await.unwrap();
}

#[tokio::test]
async fn a_wrong_password_is_refused_and_not_away() {
    let store = TestRedis::new().await;
    store.raw(redis::cmd("CONFIG").arg("SET").arg("requirepass").arg("right")).await;
    let error = RedisStore::connect(&format!("{}?pass=wrong", store.server.url()), "gm").await.unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error}");
    RedisStore::connect(&format!("{}?pass=right", store.server.url()), "gm").await.unwrap();
}

#[tokio::test]
async fn a_server_that_takes_no_further_client_is_said_to_be_full_and_is_away() {
    let store = TestRedis::new().await;
    store.raw(redis::cmd("CONFIG").arg("SET").arg("maxclients").arg("1")).await;
    let error = RedisStore::connect(&store.server.url(), "gm").await.unwrap_err();
    let said = format!("{:#}", anyhow::Error::from(error));
    assert!(said.contains("is unavailable: it has as many clients as it takes"), "{said}");
}

#[tokio::test]
async fn a_database_that_the_server_does_not_have_is_named() {
    let store = TestRedis::new().await;
    let url = format!("{}?db=99", store.server.url());
    let said = format!("{:#}", anyhow::Error::from(RedisStore::connect(&url, "gm").await.unwrap_err()));
    assert!(said.contains("refused to connect: it has no database of the number"), "{said}");
}

#[tokio::test]
async fn a_probe_fails_where_every_push_would() {
    let store = TestRedis::new().await;
    store.push(&[job("mail")]).await;
    store.store.probe().await.unwrap();
    // What another program might write: keys of all tenants, of the only tenant, and of its only topic.
    for key in ["gm:tenants", "gm:{acme/0}:jobs", "gm:{acme/0}:topics", "gm:{acme/0}:ready:mail"] {
        let aside = format!("{key} aside");
        store.raw(redis::cmd("RENAME").arg(key).arg(&aside)).await;
        store.raw(redis::cmd("SET").arg(key).arg("another program's")).await;
        let refused = format!("{:#}", anyhow::Error::from(store.store.probe().await.unwrap_err()));
        assert!(refused.contains(key) && refused.contains("another program writes"), "{refused}");
        store.raw(redis::cmd("DEL").arg(key)).await;
        store.raw(redis::cmd("RENAME").arg(&aside).arg(key)).await;
        store.store.probe().await.unwrap();
    }
    // Another tenant's keys say nothing about this one's.
    store.raw(redis::cmd("SADD").arg("gm:tenants").arg("other")).await;
    store.raw(redis::cmd("SET").arg("gm:{other/0}:jobs").arg("x")).await;
    store.store.probe().await.unwrap();
    for command in ["TIME", "EVALSHA"] {
        store.raw_beside(redis::cmd("ACL").arg("SETUSER").arg("default").arg(format!("-{command}"))).await;
        store.store.probe().await.unwrap_err();
        store.raw_beside(redis::cmd("ACL").arg("SETUSER").arg("default").arg(format!("+{command}"))).await;
        store.store.probe().await.unwrap();
    }
}

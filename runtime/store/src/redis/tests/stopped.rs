//! A claim that the server stops in its midst, as it does when it finds a key that another program has damaged: what was done stays done.

use std::collections::BTreeSet;
use std::time::Duration;

use redis::{Arg, Cmd, Value, cmd};

use super::server::TestRedis;
use crate::prelude::*;
use crate::redis::holder::Holder;
use crate::redis::script::Call;
use crate::tests::{LEASE, job, of_priority, tenant, topic, worker};
use crate::{ClaimFrom, Settled, Settlement};
use gristmill_core::job::{NewJob, Priority, WorkerId};
use gristmill_core::outcome::Verdict;

const CLAIM: &str = concat!(
    include_str!("../script/basics.lua"),
    include_str!("../signals/waiters.lua"),
    include_str!("../path/claim/plain_claim.lua"),
    include_str!("../signals/wake.lua"),
    include_str!("../script/prelude.lua"),
    include_str!("../path/claim/adopt.lua"),
    include_str!("../keys/key_rates.lua"),
    include_str!("../path/claim/turns.lua"),
    include_str!("../limits/limits.lua"),
    include_str!("../path/claim/claim.lua")
);

/// The call with an error in place of each command after the first `after`.
fn stopped(call: Call, script: &str, after: usize) -> Cmd {
    let mut values = call.command.args_iter();
    assert_eq!(values.next(), Some(Arg::Simple(b"EVALSHA".as_slice())));
    assert_eq!(values.next(), Some(Arg::Simple(redis::Script::new(script).get_hash().as_bytes())));
    let head = format!(
        "local left, real = {after}, redis
         local function counted(command)
           return function(...)
             left = left - 1
             if left < 0 then error('stopped here') end
             return real[command](...)
           end
         end
         local redis = setmetatable({{ call = counted('call'), pcall = counted('pcall') }}, {{ __index = real }})
         "
    );
    let mut command = cmd("EVAL");
    command.arg(head + script);
    for value in values {
        let Arg::Simple(value) = value else { panic!("a cursor") };
        command.arg(value);
    }
    command
}

/// The ids that are acked until nothing is left.
async fn work_off(store: &TestRedis) -> Vec<String> {
    let mut done = Vec::new();
    loop {
        let mut claims = store.claim_as(&worker(), "mail", 9).await.claims;
        claims.extend(store.claim_as(&worker(), "audit", 9).await.claims);
        for claim in &claims {
            assert_eq!(store.settle(claim, Verdict::Ack(None)).await, Settled::Done);
            done.push(claim.lease.job.to_string());
        }
        if claims.is_empty() {
            return done;
        }
    }
}

async fn take_back(store: &TestRedis) -> usize {
    const DEAD_AFTER: Duration = Duration::from_secs(3600);
    store.pass(LEASE.as_millis() as u64);
    let found = store.store.overdue(&[tenant()], DEAD_AFTER, 100).await.unwrap().jobs;
    let release = |lease| Settlement {
        only_if_overdue: Some(DEAD_AFTER),
        ..Settlement::new(lease, Verdict::Release(Duration::ZERO))
    };
    let settlements: Vec<_> = found.iter().map(|found| release(found.claim.lease.clone())).collect();
    let settled = store.store.settle(&settlements).await.unwrap();
    assert!(settled.iter().all(|settled| *settled == Settled::Done), "{settled:?}");
    settled.len()
}

/// Jobs of two topics; of special ones, one was claimed before and has a failure, and some are of another priority.
async fn push_jobs(store: &TestRedis, are_special: bool) -> Vec<NewJob> {
    let mut jobs = vec![job("mail")];
    store.push(&jobs).await;
    let more = if are_special {
        store.settle(&store.claim(1).await[0], crate::tests::retry(0)).await;
        vec![job("mail"), of_priority(Priority::High), job("audit"), job("mail"), of_priority(Priority::Low)]
    } else {
        vec![job("mail"), job("audit"), job("mail")]
    };
    store.push(&more).await;
    jobs.extend(more);
    jobs
}

/// Whether the claim was stopped, after so many commands.
async fn jobs_outlive_a_claim_that_is_stopped(
    store: &TestRedis,
    are_special: bool,
    after: usize,
    reap_first: bool,
) -> bool {
    store.raw(&mut cmd("FLUSHALL")).await;
    let jobs = push_jobs(store, are_special).await;
    let lines = ["mail", "audit"].map(|name| ClaimFrom::new(topic(name), 4, LEASE));
    let first = store.store.first();
    let (dead, batch) = (WorkerId::new("stopped"), first.next_batch());
    let call = first.claim_call(&first.keys(&tenant()), Holder { worker: &dead, batch }, &lines, 1 << 20);
    let mut pipeline = redis::pipe();
    pipeline.add_command(stopped(call, CLAIM, after));
    let answer = first.link.query::<Value>("test", &pipeline).await;
    let was_stopped = answer.as_ref().is_err_and(|error| format!("{error:?}").contains("stopped here"));
    assert!(was_stopped || answer.is_ok(), "{answer:?}");

    let mut done = if reap_first { Vec::new() } else { work_off(store).await };
    take_back(store).await;
    done.extend(work_off(store).await);
    assert_eq!(take_back(store).await, 0);
    done.sort();
    let all: BTreeSet<String> = jobs.iter().map(|job| job.spec.id.to_string()).collect();
    assert_eq!(done, all.into_iter().collect::<Vec<_>>(), "each once; stopped after {after} commands");
    let keys = first.keys(&tenant());
    let mut exists = cmd("EXISTS");
    for key in
        [keys.jobs(), keys.claims(), keys.leases(), keys.failures(), keys.processing(Holder { worker: &dead, batch })]
    {
        exists.arg(key);
    }
    assert_eq!(store.raw(&mut exists).await, Value::Int(0), "stopped after {after} commands");
    was_stopped
}

#[tokio::test]
async fn a_claim_that_is_stopped_at_any_command_loses_no_job_and_leaves_nothing_behind() {
    let store = TestRedis::new().await;
    for (are_special, least) in [(true, 20), (false, 10)] {
        for reap_first in [true, false] {
            let mut after = 0;
            while jobs_outlive_a_claim_that_is_stopped(&store, are_special, after, reap_first).await {
                after += 1;
            }
            assert!(
                after > least,
                "a claim of several topics takes more than {after} commands; special: {are_special}"
            );
        }
    }
}

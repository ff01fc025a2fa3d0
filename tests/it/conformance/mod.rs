//! What every store promises, one case a rule: told once through the contract, and run on every kind of store.
//!
//! A new rule is an async function over a [`Queue`](gristmill_tests::queue::Queue), named after the behaviour, in the list
//! at the top of its chapter. A new kind of store is a variant of `Kind` and a line of [`cases`].

/// Makes a test of each case for each kind of store: `conformance::push::redis::a_job_is_pushed_claimed_and_acked`.
macro_rules! cases {
    ($($case:ident),+ $(,)?) => {
        mod redis {
            $(#[tokio::test] async fn $case() { super::$case(crate::conformance::queue(gristmill_tests::queue::Kind::Redis).await).await })+
        }
    };
}
use cases;

mod batches;
mod cancel;
mod checkpoint;
mod claim;
mod counts;
mod dead;
mod delay;
mod fence;
mod follow_ups;
mod lease;
mod pause;
mod priority;
mod promises;
mod push;
mod results;
mod settle;
mod signals;
mod sweep;
mod transfer;
mod ttl;
mod unique;

use gristmill_tests::queue::{Kind, Queue};

async fn queue(kind: Kind) -> Queue {
    Queue::new(kind).await
}

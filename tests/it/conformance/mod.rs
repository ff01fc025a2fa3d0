//! What every store promises, one case a rule: told once through the contract, and run on every kind of store.
//!
//! A new rule is an async function over a [`TestStore`](gristmill_tests::test_store::TestStore), named after the behaviour, in the list
//! at the top of its chapter. A new kind of store is a variant of `Kind` and a line of [`cases`].

/// Makes a test of each case for each kind of store: `conformance::push::redis::a_job_is_pushed_claimed_and_acked`.
macro_rules! cases {
    ($($case:ident),+ $(,)?) => {
        crate::conformance::cases!(in redis for Redis: $($case)+);
        crate::conformance::cases!(in file for File: $($case)+);
        crate::conformance::cases!(in memory for Memory: $($case)+);
        crate::conformance::cases!(in several for ShardedStore: $($case)+);
    };
    (in $store:ident for $kind:ident: $($case:ident)+) => {
        mod $store {
            use gristmill_tests::test_store::{Kind, TestStore};
            $(
                #[tokio::test]
                async fn $case() {
                    super::$case(TestStore::new(Kind::$kind).await).await;
                }
            )+
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
mod list;
mod pause;
mod priority;
mod promises;
mod purge;
mod push;
mod results;
mod settle;
mod signals;
mod sweep;
mod tokens;
mod transfer;
mod ttl;
mod unique;
mod unreadable;

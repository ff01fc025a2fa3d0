//! What every store promises, one case a rule: told once through the contract, and run on every kind of store.
//!
//! A new rule is an async function over a [`TestStore`](gristmill_store_tests::test_store::TestStore), named after the behaviour, in the list
//! at the top of its chapter. A new kind of store is a variant of `Kind` and a line of [`cases`].

/// Makes a test of each case for each kind of store: `conformance::push::redis::a_job_is_pushed_claimed_and_acked`.
///
/// Partitions that a topic is spread over promise less than one: order, turns of priorities, places in a line, limits, bounds of a reply and
/// signals are those of a partition. Cases after `in_order` assert one of these of a whole topic. They run where all jobs of the topic
/// are in one of its partitions. Cases after `not_spread` do not run on partitions; each says why.
///
/// Without the feature `thorough` the stores are those that share the least code, and cases about large sizes are left out. Of those, the
/// ones after `large` are about what a script or a statement does with so much, which other ways to reach a store do not change: they
/// run on a Redis, on partitions of it and on a file.
macro_rules! cases {
    (
        $($(#[$when:meta])? $case:ident),* $(,)?
        $(; in_order: $($(#[$when_ordered:meta])? $ordered:ident),+ $(,)?)?
        $(; not_spread: $($(#[$when_other:meta])? $other:ident),+ $(,)?)?
        $(; large: $($large:ident),+ $(,)?)?
    ) => {
        crate::conformance::cases!(in spread: Kind::Spread(3); $($(#[$when])? $case)*);
        crate::conformance::cases!(
            in spread_in_order: Kind::Spread(1);
            $($($(#[$when_ordered])? $ordered)+)? $($(#[cfg(feature = "thorough")] $large)+)?
        );
        crate::conformance::cases!(
            in redis: Kind::Redis(RedisKind::Plain);
            $($(#[$when])? $case)* $($($(#[$when_ordered])? $ordered)+)? $($($(#[$when_other])? $other)+)?
            $($(#[cfg(feature = "thorough")] $large)+)?
        );
        crate::conformance::cases!(
            in file: Kind::File;
            $($(#[$when])? $case)* $($($(#[$when_ordered])? $ordered)+)? $($($(#[$when_other])? $other)+)?
            $($(#[cfg(feature = "thorough")] $large)+)?
        );
        crate::conformance::cases!(
            everywhere: $($(#[$when])? $case)* $($($(#[$when_ordered])? $ordered)+)? $($($(#[$when_other])? $other)+)?
        );
    };
    (everywhere: $($(#[$when:meta])? $case:ident)+) => {
        #[cfg(feature = "thorough")]
        crate::conformance::cases!(in limited_redis: Kind::Redis(RedisKind::Limited); $($(#[$when])? $case)+);
        #[cfg(all(feature = "thorough", valkey))]
        crate::conformance::cases!(in valkey: Kind::Redis(RedisKind::Valkey); $($(#[$when])? $case)+);
        #[cfg(feature = "thorough")]
        crate::conformance::cases!(in clustered: Kind::Redis(RedisKind::Cluster); $($(#[$when])? $case)+);
        #[cfg(feature = "thorough")]
        crate::conformance::cases!(in behind_sentinels: Kind::Redis(RedisKind::Sentinels); $($(#[$when])? $case)+);
        #[cfg(feature = "thorough")]
        crate::conformance::cases!(in memory: Kind::Memory; $($(#[$when])? $case)+);
        #[cfg(feature = "thorough")]
        crate::conformance::cases!(in several: Kind::ShardedStore; $($(#[$when])? $case)+);
    };
    (in $store:ident: $kind:expr; ) => {};
    (in $store:ident: $kind:expr; $($(#[$when:meta])? $case:ident)+) => {
        mod $store {
            #[allow(unused_imports, reason = "stores that are no Redis have no kind of it, and cases may be for others only")]
            use gristmill_store_tests::{deployment::RedisKind, test_store::Kind};
            $(
                $(#[$when])?
                #[test]
                fn $case() {
                    crate::conformance::run($kind, |store| Box::pin(super::$case(store)));
                }
            )+
        }
    };
}
use cases;

mod after;
mod batches;
mod bill;
mod cancel;
mod change;
mod checkpoint;
mod claim;
mod counts;
mod dead;
mod delay;
mod deployments;
mod ended;
mod fence;
mod follow_ups;
mod fsck;
mod halted_keys;
mod identity;
mod key_rates;
mod keys;
mod lease;
mod limits;
mod list;
mod many_links;
mod pause;
mod priority;
mod progress;
mod promises;
mod purge;
mod push;
mod recordings;
mod results;
mod schedules;
mod set_clock;
mod settle;
mod signals;
mod states;
mod sweep;
mod tenant_limits;
mod tokens;
mod transfer;
mod trees;
mod ttl;
mod unique;
mod unreadable;

use std::pin::Pin;

use gristmill_store_tests::test_store::{Kind, TestStore};
use tokio::runtime::Builder;

/// One function for thousands of tests, which each compile to a call of it: `#[tokio::test]` would make a runtime in each.
fn run(kind: Kind, case: fn(TestStore) -> Pin<Box<dyn Future<Output = ()>>>) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { case(TestStore::new(kind).await).await });
}

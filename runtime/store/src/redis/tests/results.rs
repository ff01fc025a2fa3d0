//! Results, whose time the server watches.

use std::time::Duration;

use super::mill::{Mill, tenant};
use crate::Settlement;
use gristmill_core::outcome::Verdict;

#[tokio::test]
async fn a_results_time_is_asked_for() {
    let mill = Mill::new().await;
    let claim = mill.running().await;
    let ack = Settlement::new(claim.lease.clone(), Verdict::Ack(None));
    mill.settle_with(Settlement { keep_result: Duration::from_secs(60), ..ack }).await;
    let key = mill.store.keys(&tenant()).result(&claim.lease.job);
    let left = mill.raw(redis::cmd("PTTL").arg(key)).await;
    assert!(matches!(left, redis::Value::Int(1..=60_000)), "{left:?}");
}

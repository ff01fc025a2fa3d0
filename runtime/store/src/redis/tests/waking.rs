//! Signals, as far as they are subscriptions.

use std::time::Duration;

use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

use super::server::{TestRedis, until};
use crate::Signal;
use crate::prelude::*;
use crate::tests::tenant;

pub(super) async fn next(signals: &mut Receiver<Signal>) -> Signal {
    timeout(Duration::from_secs(30), signals.recv()).await.expect("a signal in time").unwrap()
}

#[tokio::test]
async fn listening_ends_with_the_receiver() {
    let store = TestRedis::new().await;
    let signals = store.store.signals(&[tenant()]).await.unwrap();
    let wake = store.store.keys(&tenant()).wake_channel();
    let listeners = async || store.raw(redis::cmd("PUBSUB").arg("NUMSUB").arg(&wake)).await;
    let count = |n| redis::Value::Array(vec![redis::Value::BulkString(wake.clone().into()), redis::Value::Int(n)]);
    assert_eq!(listeners().await, count(1));
    drop(signals);
    until("the subscription is gone", async || listeners().await == count(0)).await;
}

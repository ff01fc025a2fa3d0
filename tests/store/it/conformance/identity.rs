//! Identity: a store knows which one it is.

use gristmill_store_tests::test_store::{TestStore, job};

super::cases![a_store_keeps_its_id];

async fn a_store_keeps_its_id(queue: TestStore) {
    let id = queue.store.store_id().await.unwrap();
    assert_eq!(id.as_str().len(), 32);
    queue.push(&[job("mail")]).await;
    assert_eq!(queue.store.store_id().await.unwrap(), id);
}

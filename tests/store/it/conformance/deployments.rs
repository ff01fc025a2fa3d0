//! Which versions of handlers serve: records of the installation, each written over the one before it.

use std::collections::BTreeMap;

use gristmill_core::deployment::Deployment;
use gristmill_core::job::TopicId;
use gristmill_core::version::Version;
use gristmill_store::Signal;
use gristmill_store_tests::test_store::{TestStore, tenant, topic, worker};
use gristmill_test_servers::wait::SOON;
use tokio::time::timeout;

super::cases![
    a_record_is_written_over_the_one_before_it_and_no_other,
    each_topic_has_a_record_of_its_own,
    all_runners_hear_of_a_decision,
];

fn serving(text: &str, before: Option<&Deployment>) -> Deployment {
    Deployment::serving(Version::of(text.as_bytes()), before)
}

async fn write(queue: &TestStore, topic: &TopicId, deployment: &Deployment) -> bool {
    queue.store.write_deployment(topic, deployment).await.unwrap()
}

async fn a_record_is_written_over_the_one_before_it_and_no_other(queue: TestStore) {
    let mail = topic("mail");
    assert_eq!(queue.store.deployments().await.unwrap(), BTreeMap::new());
    let first = serving("a", None);
    assert!(write(&queue, &mail, &first).await);
    assert!(!write(&queue, &mail, &serving("b", None)).await, "another one was first");
    let (b, a) = (Version::of(b"b"), Version::of(b"a"));
    let second = Deployment::trying(b, 500, a, Some(&first));
    assert!(write(&queue, &mail, &second).await);
    assert!(!write(&queue, &mail, &serving("c", Some(&first))).await, "it was written over");
    let third = Deployment::rolling_back(b, a, "traps: 3 of 3 attempts".into(), Some(&second));
    assert!(write(&queue, &mail, &third).await);
    assert_eq!(queue.store.deployments().await.unwrap(), BTreeMap::from([(mail, third)]));
}

async fn each_topic_has_a_record_of_its_own(queue: TestStore) {
    let (mail, other): (_, TopicId) = (topic("mail"), "elsewhere/mail".parse().unwrap());
    let (ours, theirs) = (serving("a", None), serving("b", None));
    assert!(write(&queue, &mail, &ours).await);
    assert!(write(&queue, &other, &theirs).await);
    assert_eq!(queue.store.deployments().await.unwrap(), BTreeMap::from([(mail, ours), (other, theirs)]));
}

async fn all_runners_hear_of_a_decision(queue: TestStore) {
    let mail = topic("mail");
    let mut first = queue.store.wake_ups(&worker(), &[tenant()], &[]).await.unwrap();
    let mut second = queue.store.wake_ups(&gristmill_core::job::WorkerId::new("w2"), &[tenant()], &[]).await.unwrap();
    assert!(write(&queue, &mail, &serving("a", None)).await);
    for signals in [&mut first, &mut second] {
        let heard =
            async { while signals.recv().await.expect("the store still speaks") != Signal::Deployed(mail.clone()) {} };
        timeout(SOON, heard).await.expect("the decision in time");
    }
    assert!(!write(&queue, &mail, &serving("b", None)).await);
}

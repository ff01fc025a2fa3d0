//! Shares of tenants hold in the whole fleet: what one uses of a runner counts in the others.

use std::sync::Arc;
use std::time::Duration;

use gristmill::Gristmill;
use gristmill::config::{Listen, Manifest};
use gristmill::job::{Due, JobSpec, NewJob, Payload, TopicId};
use gristmill::runner::AttemptRecord;
use gristmill::runner::native::{HandlerError, NativeJob};
use gristmill_tests::redis::Redis;
use gristmill_tests::wait::{SOON, until};
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// The last jobs' tenants, by when they ended.
type Ended = Arc<Mutex<Vec<String>>>;

/// How many of the last jobs are looked at.
const LAST: usize = 100;

/// A runner with four slots for the topics of these tenants.
async fn runner(redis: &Redis, folder: &TempDir, tenants: &[&str]) -> (Gristmill, Ended) {
    let topics = tenants.iter().map(|tenant| format!("[tenants.{tenant}.topics.t]\nhandler = \"work\"\n"));
    let text = format!("[server]\nconcurrency = 4\n{}", topics.collect::<String>());
    let manifest = Manifest::parse(&text, &folder.path().join("gristmill.toml")).unwrap();
    let ended = Ended::default();
    let observed = Arc::clone(&ended);
    let work = async |_: NativeJob| {
        tokio::time::sleep(Duration::from_millis(10)).await;
        Ok::<_, HandlerError>(())
    };
    let builder = Gristmill::builder().manifest(manifest).store(&redis.url()).unwrap().listen(Listen::Off);
    let builder = builder.handlers(folder.path().join("handlers")).handler("work", work).unwrap();
    let observer = Arc::new(move |record: &AttemptRecord| {
        observed.lock().push(record.claim.lease.topic.tenant.to_string());
    });
    (builder.observer(observer).start().await.unwrap(), ended)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_has_another_runner_leaves_this_one_to_the_others() {
    let (redis, folder) = (Redis::start().await, TempDir::new().unwrap());
    let (first, ended) = runner(&redis, &folder, &["here", "everywhere"]).await;
    let (second, _) = runner(&redis, &folder, &["everywhere"]).await;
    let topics: [TopicId; 2] = ["here/t", "everywhere/t"].map(|topic| topic.parse().unwrap());
    let push = async || {
        let job = |topic: &TopicId| NewJob { spec: JobSpec::new(topic.clone(), Payload::default()), due: Due::Now };
        let jobs: Vec<NewJob> = topics.iter().flat_map(|topic| (0..1000).map(|_| job(topic))).collect();
        first.store().push(&jobs).await.unwrap();
    };
    let mut pushed = 0;
    // Half of the first runner is its share there; with what it has of the second, it has had its share of both.
    until("the first runner to serve the tenant that has no other", 4 * SOON, async || {
        let (all, of_here) = {
            let ended = ended.lock();
            let last = &ended[ended.len().saturating_sub(LAST)..];
            (ended.len(), last.iter().filter(|tenant| *tenant == "here").count())
        };
        if pushed < all + 4000 {
            push().await;
            pushed += 1000;
        }
        (all > 3 * LAST && of_here > LAST * 4 / 5).then_some(())
    })
    .await;
    for runner in [first, second] {
        runner.shutdown(CancellationToken::new()).await;
    }
}

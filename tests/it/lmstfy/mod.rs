//! lmstfy's API, rule by rule, as its clients use it.

mod ack;
mod admin;
mod consume;
mod dead;
mod gone;
mod identity;
mod publish;
mod python;
mod queue;
mod routes;
mod throttle;
mod together;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gristmill::job::{JobId, Name, TopicId};
use gristmill::store::{JobView, TopicCounts};
use gristmill_tests::http_client::{Answer, HttpClient};
use gristmill_tests::test_runner::{On, TestRunner};
use gristmill_tests::wait::{SOON, until};
use hyper::Request;
use hyper::http::request::Builder;
use serde_json::Value;

const NAMESPACE: &str = "ns";

async fn runner(on: On) -> TestRunner {
    TestRunner::start_on(on, "", &[]).await
}

/// A client as lmstfy's own are, in one namespace.
#[derive(Debug, Clone)]
struct Client {
    client: HttpClient,
    namespace: String,
    token: String,
}

impl Client {
    fn of(runner: &TestRunner) -> Self {
        Self { client: runner.client(), namespace: NAMESPACE.into(), token: String::new() }
    }

    fn with_token(&self, token: &str) -> Self {
        Self { token: token.into(), ..self.clone() }
    }

    fn within(&self, namespace: &str) -> Self {
        Self { namespace: namespace.into(), ..self.clone() }
    }

    fn path(&self, path: &str) -> String {
        format!("/api/{}/{path}", self.namespace)
    }

    async fn send(&self, request: Builder, body: &[u8]) -> Answer {
        let answer = self.client.send(request.header("X-Token", &self.token), body.to_vec()).await;
        assert_eq!(answer.header("x-request-id").len(), 26, "{answer:?}");
        answer
    }

    async fn put(&self, path: &str, body: &[u8]) -> Answer {
        self.send(Request::put(self.path(path)), body).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.send(Request::get(self.path(path)), b"").await
    }

    async fn delete(&self, path: &str) -> Answer {
        self.send(Request::delete(self.path(path)), b"").await
    }

    /// Publishes a job. Its id.
    async fn publish(&self, queue: &str, body: &str) -> String {
        let answer = self.put(queue, body.as_bytes()).await;
        assert_eq!((answer.status, &answer.json()["msg"]), (201, &"published".into()), "{}", answer.text());
        answer.json()["job_id"].as_str().unwrap().to_owned()
    }

    /// Consumes a job that is there or will soon be.
    async fn consume(&self, queue: &str) -> Value {
        let and = if queue.contains('?') { '&' } else { '?' };
        let answer = self.get(&format!("{queue}{and}timeout=30")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    async fn size(&self, queue: &str) -> u64 {
        self.get(&format!("{queue}/size")).await.json()["size"].as_u64().unwrap()
    }

    async fn until_size(&self, queue: &str, size: u64) {
        until(format!("{size} in {queue}"), SOON, async || (self.size(queue).await == size).then_some(())).await;
    }

    /// Waits until so many are dead.
    async fn until_dead(&self, queue: &str, size: u64) {
        let path = format!("{queue}/deadletter/size");
        let dead = async || (self.get(&path).await.json()["size"] == size).then_some(());
        until(format!("{size} dead in {queue}"), SOON, dead).await;
    }

    /// Publishes a job and lets it die.
    async fn kill(&self, queue: &str, body: &str) -> String {
        let id = self.publish(queue, body).await;
        assert_eq!(self.consume(&format!("{queue}?ttr=0")).await["job_id"], id);
        until("the job to be dead", SOON, async || {
            (self.get(&format!("{queue}/size")).await.json()["size"] == 0
                && self.get(&format!("{queue}/deadletter")).await.json()["deadletter_size"].as_u64() > Some(0))
            .then_some(())
        })
        .await;
        id
    }
}

/// What a job brought.
fn data(job: &Value) -> String {
    String::from_utf8(STANDARD.decode(job["data"].as_str().unwrap()).unwrap()).unwrap()
}

fn error(answer: &Answer) -> String {
    answer.json()["error"].as_str().unwrap_or_else(|| panic!("no error: {}", answer.text())).to_owned()
}

fn tenant() -> Name {
    NAMESPACE.parse().unwrap()
}

async fn view(runner: &TestRunner, id: &str) -> Option<JobView> {
    runner.store.job(&tenant(), &id.parse::<JobId>().unwrap()).await.unwrap()
}

async fn counts(runner: &TestRunner, queue: &str) -> TopicCounts {
    let topic = TopicId { tenant: tenant(), topic: queue.parse().unwrap() };
    let counts = runner.store.counts(&tenant()).await.unwrap();
    counts.into_iter().find(|counts| counts.topic == topic).unwrap()
}

//! Reads server-sent events.

use gristmill_tests::http_client::HttpClient;
use gristmill_tests::test_runner::TestRunner;
use gristmill_tests::wait::SOON;
use http_body_util::BodyExt;
use hyper::Request;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::time::timeout;

/// A stream that is open.
#[derive(Debug)]
pub(crate) struct Stream {
    body: Incoming,
    text: String,
}

/// One event: its name, its number if it has one, its data.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) id: Option<u64>,
    pub(crate) data: Value,
}

impl Stream {
    /// What happens after this is told.
    pub(crate) async fn open(runner: &TestRunner, path: &str) -> Self {
        Self::open_as(&runner.client(), path).await
    }

    /// The same with the token of a client.
    pub(crate) async fn open_as(client: &HttpClient, path: &str) -> Self {
        let response = client.begin(Request::get(path), Vec::new()).await;
        assert_eq!(response.status(), 200, "{path}");
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { body: response.into_body(), text: String::new() }
    }

    /// The next event; none: the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        timeout(SOON, self.read()).await.expect("an event, or the end")
    }

    /// The next so many.
    pub(crate) async fn take(&mut self, count: usize) -> Vec<Event> {
        let mut events = Vec::new();
        while events.len() < count {
            events.push(self.next().await.unwrap_or_else(|| panic!("ended after {events:?}")));
        }
        events
    }

    async fn read(&mut self) -> Option<Event> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event(block), rest.to_owned());
                self.text = rest;
                match event {
                    Some(event) => return Some(event),
                    None => continue,
                }
            }
            let frame = self.body.frame().await?.ok()?;
            self.text.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap());
        }
    }
}

/// None: a comment.
fn event(block: &str) -> Option<Event> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    if block.lines().all(|line| line.starts_with(':')) {
        return None;
    }
    Some(Event {
        name: field("event").unwrap().to_owned(),
        id: field("id").map(|id| id.parse().unwrap()),
        data: serde_json::from_str(field("data").unwrap()).unwrap(),
    })
}

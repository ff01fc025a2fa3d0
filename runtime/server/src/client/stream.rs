//! Reads answers that go on: wake-ups, a line each, and events.

use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::exchange::Question;
use super::store::RemoteStore;
use gristmill_core::job::{JobId, Name};
use gristmill_core::time::Timestamp;
use gristmill_store::{Signal, StoreError};

/// Signals or events that wait to be received.
const WAITING: usize = 256;
/// No line is longer; what sends one is no server of ours.
const LINE_BYTES: usize = 64 << 10;

/// An event of a server's stream, of this version or a later one.
#[derive(Debug, Clone, Deserialize)]
pub struct StreamedEvent {
    /// Its name, such as `job-pushed`. Empty where [`missed`](Self::missed) counts events.
    #[serde(default)]
    pub kind: String,
    /// By the clock of the server's host.
    pub at_ms: Option<Timestamp>,
    /// The tenant that it is about.
    pub tenant: Option<Name>,
    /// The topic that it is about.
    pub topic: Option<Name>,
    /// The job that it is about.
    pub job: Option<JobId>,
    /// How many events are missing in its place.
    pub missed: Option<u64>,
    /// What else it says.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl RemoteStore {
    /// What happens on the server, in a tenant or in all, from now until the receiver is dropped or the server ends the stream; then the receiver is
    /// closed. Where the caller is too slow, the server leaves events out and sends how many it left out.
    ///
    /// # Errors
    /// The server is unavailable, or refuses: a token for one tenant may not listen to all.
    pub async fn events(&self, tenant: Option<&Name>) -> Result<mpsc::Receiver<StreamedEvent>, StoreError> {
        let path = tenant.map_or_else(|| "/v1/events".to_owned(), |tenant| format!("/v1/tenants/{tenant}/events"));
        Ok(receive(self.server.listen(Question::get(path, "listen for events")).await?, event))
    }
}

/// What `read` makes of lines, until the receiver is dropped or the server ends; then the receiver is closed.
pub(super) fn receive<T: Send + 'static>(body: Incoming, read: fn(&[u8]) -> Option<T>) -> mpsc::Receiver<T> {
    let (sender, receiver) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        tokio::select! {
            () = sender.closed() => {}
            () = forward(body, read, &sender) => {}
        }
    });
    receiver
}

/// A line that cannot be read may have been any signal.
pub(super) fn signal(line: &[u8]) -> Option<Signal> {
    Some(serde_json::from_slice(line).unwrap_or(Signal::Lost))
}

/// The data of a server-sent event; other lines have nothing that the data lacks.
fn event(line: &[u8]) -> Option<StreamedEvent> {
    serde_json::from_slice(line.strip_prefix(b"data:")?).ok()
}

async fn forward<T>(mut body: Incoming, read: fn(&[u8]) -> Option<T>, to: &mpsc::Sender<T>) {
    let mut lines = LineBuffer::default();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        lines.add(&data);
        while let Some(line) = lines.next() {
            if let Some(read) = read(&line)
                && to.send(read).await.is_err()
            {
                return;
            }
        }
        if lines.0.len() > LINE_BYTES {
            return;
        }
    }
}

/// Bytes that have come and are not read yet.
#[derive(Debug, Default)]
struct LineBuffer(Vec<u8>);

impl LineBuffer {
    fn add(&mut self, data: &[u8]) {
        self.0.extend_from_slice(data);
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        let end = self.0.iter().position(|byte| *byte == b'\n')?;
        Some(self.0.drain(..=end).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_however_they_are_cut() {
        let mut lines = LineBuffer::default();
        lines.add(b"{\"signal\":\"finished\",\"tenant\":\"a\",");
        assert_eq!(lines.next(), None);
        lines.add(b"\"id\":\"j\"}\n{\"signal\":\"unheard-of\",\"x\":1}\nnonsense\n{");
        let finished = Signal::Finished { tenant: "a".parse().unwrap(), id: "j".parse().unwrap() };
        let mut next = || lines.next().and_then(|line| signal(&line));
        assert_eq!([next(), next(), next(), next()], [Some(finished), Some(Signal::Lost), Some(Signal::Lost), None]);
    }

    #[test]
    fn events_are_the_data_of_a_stream_with_whatever_a_later_version_adds() {
        for line in [": keep\n", "\n", "event: job-pushed\n", "id: 7\n", "data: {\n"] {
            assert!(event(line.as_bytes()).is_none(), "{line}");
        }
        let read =
            event(b"data: {\"kind\":\"job-began\",\"at_ms\":7,\"tenant\":\"a\",\"job\":\"j\",\"mood\":3}\n").unwrap();
        assert_eq!((&*read.kind, read.at_ms), ("job-began", Some(Timestamp::from_millis(7))));
        assert_eq!((read.job, read.topic), (Some("j".parse().unwrap()), None));
        assert_eq!(Value::Object(read.more), serde_json::json!({ "mood": 3 }));
        assert_eq!(event(b"data: {\"missed\":12}").unwrap().missed, Some(12));
    }
}

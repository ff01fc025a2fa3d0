//! What happens in a tenant.

use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::client::{Client, text};
use crate::http::{Error, Transport, quoted};

/// Chooses events; what is left out excludes none.
#[derive(Debug, Clone, Copy, Default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Filter<'a> {
    pub topic: Option<&'a str>,
    pub job: Option<&'a str>,
    pub kinds: &'a [&'a str],
}

/// An event.
#[derive(Debug, Clone)]
pub struct Event {
    /// As docs/reference/events.md names it, or `reconnected`: events between may be missing.
    pub kind: String,
    /// All of it.
    pub data: Value,
}

/// Never ends by itself: when the connection breaks, it is made again.
pub struct Events {
    pub(crate) http: Arc<dyn Transport>,
    pub(crate) path: String,
    pub(crate) stream: Option<Box<dyn BufRead + Send>>,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Events({})", self.path)
    }
}

impl Client {
    /// Listens to what happens from now on.
    ///
    /// # Errors
    /// The server refuses that or does not answer.
    pub fn events(&self, filter: Filter<'_>) -> Result<Events, Error> {
        let kinds = Some(filter.kinds.join(",")).filter(|kinds| !kinds.is_empty());
        let asked = [("topic", filter.topic), ("job", filter.job), ("kind", kinds.as_deref())];
        let asked = asked.iter().filter_map(|(name, value)| Some(format!("{name}={}", quoted((*value)?))));
        let path = format!("{}/events?{}", self.tenant, asked.collect::<Vec<_>>().join("&"));
        let stream = Some(buffered(self.http.open(&path)?));
        Ok(Events { http: self.http.clone(), path, stream })
    }
}

pub(crate) fn buffered(stream: Box<dyn Read + Send>) -> Box<dyn BufRead + Send> {
    Box::new(BufReader::new(stream))
}

impl Events {
    /// The next event of the stream that is open, if it has one.
    fn read(&mut self) -> Option<Event> {
        let (stream, mut kind) = (self.stream.as_mut()?, String::new());
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).ok()? == 0 {
                return None;
            }
            match line.trim_end().split_once(": ") {
                Some(("event", name)) => kind = name.into(),
                Some(("data", data)) => return Some(Event { kind, data: serde_json::from_str(data).ok()? }),
                _ => {}
            }
        }
    }
}

impl Iterator for Events {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(event) = self.read() {
            return Some(Ok(event));
        }
        loop {
            std::thread::sleep(Duration::from_secs(1));
            match self.http.open(&self.path) {
                Ok(stream) => {
                    self.stream = Some(buffered(stream));
                    return Some(Ok(Event { kind: "reconnected".into(), data: Value::Null }));
                }
                Err(error) if error.is_temporary() => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Event {
    /// The job that it is about, or nothing.
    pub fn job(&self) -> String {
        text(&self.data["job"])
    }
}

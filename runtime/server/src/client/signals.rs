//! Reads wake-ups, a line each.

use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::mpsc;

use gristmill_store::Signal;

/// Signals that wait to be heard.
const WAITING: usize = 256;
/// No line is longer; what sends one is no server of ours.
const LINE_BYTES: usize = 64 << 10;

/// Signals until the receiver is dropped or the server ends; then the receiver is closed.
pub(super) fn receive(body: Incoming) -> mpsc::Receiver<Signal> {
    let (sender, receiver) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        tokio::select! {
            () = sender.closed() => {}
            () = forward(body, &sender) => {}
        }
    });
    receiver
}

async fn forward(mut body: Incoming, to: &mpsc::Sender<Signal>) {
    let mut lines = Lines::default();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        lines.add(&data);
        while let Some(signal) = lines.next() {
            if to.send(signal).await.is_err() {
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
struct Lines(Vec<u8>);

impl Lines {
    fn add(&mut self, data: &[u8]) {
        self.0.extend_from_slice(data);
    }

    /// A line that cannot be read may have been any signal.
    fn next(&mut self) -> Option<Signal> {
        let end = self.0.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.0.drain(..=end).collect();
        Some(serde_json::from_slice(&line).unwrap_or(Signal::Lost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_however_they_are_cut() {
        let mut lines = Lines::default();
        lines.add(b"{\"signal\":\"finished\",\"tenant\":\"a\",");
        assert_eq!(lines.next(), None);
        lines.add(b"\"id\":\"j\"}\n{\"signal\":\"unheard-of\",\"x\":1}\nnonsense\n{");
        let finished = Signal::Finished { tenant: "a".parse().unwrap(), id: "j".parse().unwrap() };
        assert_eq!(
            [lines.next(), lines.next(), lines.next(), lines.next()],
            [Some(finished), Some(Signal::Lost), Some(Signal::Lost), None]
        );
    }
}

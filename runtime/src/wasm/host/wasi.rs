//! WASI for guests whose toolchain imports it: an empty world. No files, no sockets, no environment, no arguments;
//! clocks and random numbers; standard output and error become log lines.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use std::{io, mem};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use tracing::Level;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};
use wasmtime_wasi::{HostWallClock, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

use super::super::contract::LogLine;
use super::super::logbook::Logbook;
use super::super::state::{State, store_time};

/// One call for random bytes; filling more takes longer than a guest may go without yielding.
const RANDOM_BYTES_MAX: u64 = 64 << 10;

/// What a guest may write at once. It asks first, and waits never.
const WRITE_BYTES_MAX: usize = 64 << 10;

/// A longer line is cut into several.
const LINE_BYTES_MAX: usize = 8 << 10;

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let Self { wasi, resources, logbook, clock_offset_ms, .. } = self;
        WasiCtxView { ctx: wasi.get_or_insert_with(|| empty_world(logbook, *clock_offset_ms)), table: resources }
    }
}

fn empty_world(logbook: &Arc<Mutex<Logbook>>, clock_offset_ms: i64) -> WasiCtx {
    WasiCtxBuilder::new()
        .stdout(Lines::new(logbook, Level::INFO, "stdout"))
        .stderr(Lines::new(logbook, Level::WARN, "stderr"))
        .wall_clock(StoreClock { offset_ms: clock_offset_ms })
        .max_random_size(RANDOM_BYTES_MAX)
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .build()
}

/// The clock that deadlines and `context.now` are told by.
struct StoreClock {
    offset_ms: i64,
}

impl HostWallClock for StoreClock {
    fn resolution(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn now(&self) -> Duration {
        Duration::from_millis(store_time(self.offset_ms).as_millis())
    }
}

/// Standard output or error, cut into lines. All handles to it share one buffer.
#[derive(Clone)]
struct Lines(Arc<Mutex<Buffer>>);

struct Buffer {
    logbook: Arc<Mutex<Logbook>>,
    level: Level,
    source: &'static str,
    /// The line begun. Never longer than [`LINE_BYTES_MAX`].
    line: Vec<u8>,
}

impl Lines {
    fn new(logbook: &Arc<Mutex<Logbook>>, level: Level, source: &'static str) -> Self {
        let logbook = Arc::clone(logbook);
        Self(Arc::new(Mutex::new(Buffer { logbook, level, source, line: Vec::new() })))
    }

    fn write_bytes(&self, bytes: &[u8]) {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).write(bytes);
    }
}

impl Buffer {
    fn write(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ended) = piece.strip_suffix(b"\n").map_or((piece, false), |text| (text, true));
            for part in text.chunks(LINE_BYTES_MAX) {
                if self.line.len() + part.len() > LINE_BYTES_MAX {
                    self.end_line();
                }
                self.line.extend_from_slice(part);
            }
            if ended {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let line = mem::take(&mut self.line);
        let message = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(&line)).into_owned();
        let line = LogLine { level: self.level, source: self.source, message, fields: Vec::new() };
        self.logbook.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).write(line);
    }
}

impl Drop for Buffer {
    /// A last line without an end, such as the message of an abort, is a line too.
    fn drop(&mut self) {
        if !self.line.is_empty() {
            self.end_line();
        }
    }
}

impl IsTerminal for Lines {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Lines {
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }

    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }
}

#[async_trait::async_trait]
impl Pollable for Lines {
    async fn ready(&mut self) {}
}

impl OutputStream for Lines {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.write_bytes(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES_MAX)
    }
}

impl AsyncWrite for Lines {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.write_bytes(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

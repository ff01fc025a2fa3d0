//! WASI for guests whose toolchain imports it: an empty world. No files, no sockets, no arguments; the environment, clocks
//! and random numbers that the topic is granted; standard output and error become log lines. A program has its standard input
//! and output from [`ProgramStreams`].

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};
use wasmtime_wasi::{HostWallClock, WasiCtx, WasiCtxBuilder};

use super::attempt::store_time;
use super::guest_log::{GuestLog, Stream};
use super::placeholders::Placeholders;
use super::program_streams::ProgramStreams;
use gristmill_core::topic::Grants;

/// One call for random bytes; filling more takes longer than a guest may go without yielding.
const RANDOM_BYTES_MAX: u64 = 64 << 10;

/// What a guest may write at once. It never has to wait.
pub(super) const WRITE_BYTES_MAX: usize = 64 << 10;

/// All that a guest sees through WASI. An instance keeps its own, since the guest holds on to parts of it.
pub(super) struct GuestWasi {
    context: WasiCtx,
    clock: StoreClock,
}

impl GuestWasi {
    pub(super) fn new(
        guest_log: &Arc<Mutex<GuestLog>>,
        grants: &Grants,
        placeholders: Option<&Placeholders>,
        clock_offset_ms: i64,
        program: Option<&ProgramStreams>,
    ) -> Self {
        let clock = StoreClock { offset_ms: Arc::new(AtomicI64::new(clock_offset_ms)) };
        Self { context: context(guest_log, grants, placeholders, clock.clone(), program), clock }
    }

    pub(super) fn context(&mut self) -> &mut WasiCtx {
        &mut self.context
    }

    /// Sets the clock to that of another attempt: the store's clock minus this host's, in milliseconds.
    pub(super) fn set_clock(&self, offset_ms: i64) {
        self.clock.offset_ms.store(offset_ms, Ordering::Relaxed);
    }
}

fn context(
    guest_log: &Arc<Mutex<GuestLog>>,
    grants: &Grants,
    placeholders: Option<&Placeholders>,
    clock: StoreClock,
    program: Option<&ProgramStreams>,
) -> WasiCtx {
    let mut world = WasiCtxBuilder::new();
    match program {
        Some(program) => program.add_to(&mut world),
        None => {
            world.stdout(GuestStream::new(guest_log, Stream::Out));
            for (name, value) in &grants.env {
                world.env(name, value);
            }
            for (name, placeholder) in placeholders.into_iter().flat_map(Placeholders::variables) {
                world.env(name, placeholder);
            }
        }
    }
    world
        .stderr(GuestStream::new(guest_log, Stream::Error))
        .wall_clock(clock)
        .max_random_size(RANDOM_BYTES_MAX)
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .build()
}

/// The clock of deadlines and of `context.now`.
#[derive(Clone)]
struct StoreClock {
    offset_ms: Arc<AtomicI64>,
}

impl HostWallClock for StoreClock {
    fn resolution(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn now(&self) -> Duration {
        Duration::from_millis(store_time(self.offset_ms.load(Ordering::Relaxed)).as_millis())
    }
}

/// Standard output or error. Knows no attempt: an instance that is kept writes the next one's lines with it.
#[derive(Clone)]
struct GuestStream {
    guest_log: Arc<Mutex<GuestLog>>,
    stream: Stream,
}

impl GuestStream {
    fn new(guest_log: &Arc<Mutex<GuestLog>>, stream: Stream) -> Self {
        Self { guest_log: Arc::clone(guest_log), stream }
    }

    fn print(&self, bytes: &[u8]) {
        self.guest_log.lock().print(self.stream, bytes);
    }
}

impl IsTerminal for GuestStream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for GuestStream {
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }

    /// Only WASI 0.3 asks for this, which no guest has.
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(tokio::io::sink())
    }
}

#[async_trait::async_trait]
impl Pollable for GuestStream {
    async fn ready(&mut self) {}
}

impl OutputStream for GuestStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        check_permitted(&bytes)?;
        self.print(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES_MAX)
    }
}

/// Refuses what a guest writes at once if it is more than it was permitted.
pub(super) fn check_permitted(bytes: &Bytes) -> StreamResult<()> {
    let permitted = bytes.len() <= WRITE_BYTES_MAX;
    if permitted { Ok(()) } else { Err(StreamError::trap("wrote more to a stream than `check-write` permits")) }
}

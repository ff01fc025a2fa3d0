//! What a service of `Type=notify` sends to systemd: that it is ready, still lives, and ends.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use tokio_util::task::AbortOnDropHandle;

/// A service that systemd has started, or any other process: that sends nothing.
#[derive(Debug)]
pub(super) struct Service {
    /// As `NOTIFY_SOCKET` names it.
    socket: Option<OsString>,
    _watchdog: Option<AbortOnDropHandle<()>>,
}

impl Service {
    /// Says that the service is ready. From then on it says again and again that it lives, if systemd asks for that.
    pub(super) fn ready() -> Self {
        let socket = std::env::var_os("NOTIFY_SOCKET");
        say(socket.as_ref(), "READY=1");
        let watchdog = watchdog_time().zip(socket.clone()).map(|(time, socket)| {
            AbortOnDropHandle::new(tokio::spawn(async move {
                // Twice in the time that systemd gives.
                let mut ticks = tokio::time::interval(time / 2);
                loop {
                    ticks.tick().await;
                    say(Some(&socket), "WATCHDOG=1");
                }
            }))
        });
        Self { socket, _watchdog: watchdog }
    }

    pub(super) fn ending(&self) {
        say(self.socket.as_ref(), "STOPPING=1");
    }
}

/// How long systemd waits for a sign of life.
fn watchdog_time() -> Option<Duration> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
    number("WATCHDOG_USEC").filter(|micros| is_ours && *micros > 0).map(Duration::from_micros)
}

/// Nothing depends on it: if systemd does not receive it, systemd reports that.
fn say(socket: Option<&OsString>, what: &str) {
    let Some(socket) = socket else { return };
    let sent = address(socket).and_then(|address| {
        let from = UnixDatagram::unbound()?;
        from.set_nonblocking(true)?;
        from.send_to_addr(what.as_bytes(), &address)
    });
    if let Err(error) = sent {
        tracing::debug!(error = &error as &dyn std::error::Error, "failed to send systemd {what}");
    }
}

fn address(socket: &OsStr) -> io::Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    if let Some(name) = std::os::unix::ffi::OsStrExt::as_bytes(socket).strip_prefix(b"@") {
        return <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name);
    }
    SocketAddr::from_pathname(socket)
}

//! Why a [`Gristmill`](crate::Gristmill) does not start.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use gristmill_runner::LineFileError;
use gristmill_sandbox::SandboxError;
use gristmill_server::{ListenError, OpenError};
use gristmill_store::StoreError;

/// Why a [`Gristmill`](crate::Gristmill) does not start. Nothing of it runs then.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Neither the manifest nor the environment says where compiled components go.
    #[error("no directory is set for compiled components: set `cache` in [server], or the variable XDG_CACHE_HOME")]
    NoCacheDirectory,
    /// The HTTP server would accept every client. Only where others can reach it: on loopback a server without tokens is allowed.
    #[error(
        "there are no tokens, so every client that can reach {0} could do everything: make one with \
         `gristmill token create --all-tenants --scope push,work,read,admin`, listen on 127.0.0.1, or allow every client \
         with `insecure = true` in [http] or `gristmill run --insecure`"
    )]
    NoTokens(SocketAddr),
    /// There is no memory for the sandbox, or its cache is not safe.
    #[error("failed to set up the sandbox")]
    Sandbox(#[from] SandboxError),
    /// The journal or the audit log cannot be written.
    #[error(transparent)]
    LineFile(#[from] LineFileError),
    /// No spans can be sent.
    #[cfg(feature = "otel")]
    #[error(transparent)]
    Traces(#[from] gristmill_runner::TracesError),
    /// A store refuses, or another process owns it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The address of the HTTP server is taken.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The certificate cannot be used, or the system refuses.
    #[error("failed to start the HTTP server")]
    HttpServer(#[from] OpenError),
    /// The folder cannot be created or read.
    #[error("failed to read the handlers folder {}", folder.display())]
    Handlers {
        /// What the settings name.
        folder: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The system refuses more threads.
    #[error("failed to start the threads of the runner")]
    Threads(#[source] io::Error),
}

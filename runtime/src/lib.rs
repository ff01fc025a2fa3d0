//! A job runner whose handlers are WebAssembly components.
//!
//! [`Gristmill`] is all of it in one process: a store, a folder of handlers, a runner, and an HTTP server. The program
//! `gristmill` is this crate with a command line.
//!
//! ```no_run
//! use gristmill::Gristmill;
//! use gristmill::job::{Due, JobSpec, NewJob, Payload};
//! use tokio_util::sync::CancellationToken;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! // Serves every component in `handlers/`, and each new version of it at once.
//! let gristmill = Gristmill::builder().store("sqlite:jobs.db")?.handlers("handlers").start().await?;
//! let body = Payload { data: b"{\"name\": \"Ada\"}".to_vec(), content_type: Some("application/json".into()) };
//! gristmill.push(NewJob { spec: JobSpec::new("greet".parse()?, body), due: Due::Now }).await?;
//! gristmill.shutdown(CancellationToken::new()).await;
//! # Ok(())
//! # }
//! ```
//!
//! # Layers
//!
//! Each layer is a crate, so that the compiler holds them apart; this one exports them as modules. [`job`], [`topic`],
//! [`outcome`], [`retry`], [`time`], [`bill`], [`token`] and [`http_grant`] are facts without I/O. [`config`] reads the manifest, [`metrics`]
//! counts. [`store`] keeps jobs and knows no WebAssembly; [`sandbox`] runs components and knows no store. [`runner`] joins
//! them, [`server`] answers over HTTP.
//!
//! # Features
//!
//! All are on by default. A program that embeds Gristmill takes those that it needs:
//!
//! ```toml
//! gristmill = { version = "0.1", default-features = false, features = ["embedded"] }
//! ```
//!
//! | feature | what it adds |
//! |---|---|
//! | `embedded` | the store in a SQLite file or in memory |
//! | `redis` | the store in Redis |
//! | `sharding` | several stores, and moving tenants between them |
//! | `otel` | traces |
//! | `cli` | the command line, which needs every store |
//! | `top` | `gristmill top` in that |

#![cfg_attr(
    not(all(feature = "cli", feature = "sharding")),
    allow(dead_code, reason = "what the command line and several stores need is not used by each program")
)]

mod background;
mod builder;
mod error;
mod gristmill;
mod http;
mod open;

#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;

pub use builder::Builder;
pub use error::StartError;
pub use gristmill::{Gristmill, PushError};
pub use gristmill_runner::Broken;

pub use gristmill_config as config;
pub use gristmill_core::{admission, bill, http_grant, job, outcome, retry, schedule, time, token, topic, trace};
pub use gristmill_metrics as metrics;
pub use gristmill_runner as runner;
pub use gristmill_runner::handlers;
pub use gristmill_sandbox as sandbox;
pub use gristmill_server as server;
pub use gristmill_store as store;

//! Unit tests of a handler with plain `cargo test`: no WebAssembly, no runner.
//!
//! Outside a component the host functions go to a fake that belongs to the thread. [`Host`] says what it knows and
//! refuses, [`job`] makes a job, and [`Run`] shows what the handler did.
//!
//! ```
//! use gristmill_guest::testing::{Host, job};
//! use gristmill_guest::{Failure, Job, config, log};
//!
//! fn greet(job: Job) -> Result<String, Failure> {
//!     log::info("greeting", &[("name", &job.text()?)]);
//!     Ok(format!("{} {}", config::get("greeting").unwrap_or_default(), job.text()?))
//! }
//!
//! let run = Host::new().config("greeting", "Hello").run(greet, job("greet").body("Ada"));
//! assert_eq!(run.text(), "Hello Ada");
//! assert_eq!(run.logs()[0].field("name"), Some("Ada"));
//! ```
//!
//! What it leaves out: fuel, memory, time and log limits, the topics' payload limits, and whether a job can wait for those that it names.
//! They are the host's, and its own tests cover them.

mod answer;
pub(crate) mod fake;
mod host;
mod job;
mod run;

pub use crate::bindings::http::gristmill::job::http::Request as SentRequest;
pub use answer::{AnswerBuilder, answer};
pub use host::Host;
pub use job::{JobBuilder, job};
pub use run::{EnqueuedJob, LogLine, Run};

//! Write a Gristmill job handler in Rust.
//!
//! A handler is one function from a [`Job`] to an outcome or a [`Failure`]. This is a whole one, with its test:
//!
//! ```
//! use std::time::Duration;
//!
//! use gristmill_guest::{Failure, Job, Json, NewJob, handler, log};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Signup {
//!     email: String,
//! }
//!
//! fn welcome(job: Job) -> Result<Json<Signup>, Failure> {
//!     let signup: Signup = job.json()?; // a body that does not parse goes to the dead letters, saying where
//!     log::info("welcome", &[("email", &signup.email)]);
//!     NewJob::to("send-mail").json(&signup)?.after(Duration::from_secs(60)).unique(&signup.email).enqueue()?;
//!     Ok(Json(signup)) // the job's result
//! }
//!
//! handler!(welcome);
//!
//! // Plain `cargo test`: outside a component the host functions go to a fake.
//! # fn main() {
//! let run = gristmill_guest::testing::Host::new()
//!     .run(welcome, gristmill_guest::testing::job("welcome").json(&Signup { email: "ada@example.org".into() }));
//! assert_eq!(run.enqueued()[0].topic, "send-mail");
//! # }
//! ```
//!
//! Build it with `cargo build --release --target wasm32-wasip2`, drop the `.wasm` file into the handlers folder, and the
//! topic of that name has a handler. The crate must be a `cdylib`; make it an `rlib` too, so that its tests run.
//!
//! # What ends an attempt
//!
//! | the function | the job |
//! |---|---|
//! | returns `Ok` ([`IntoOutcome`]) | is done; follow-up jobs become visible in the same step |
//! | returns [`snooze`] | runs again after that wait, and the attempt does not count |
//! | returns [`Failure::retry`], or `?` on any error | is retried with backoff, then dead |
//! | returns [`Failure::reject`] | is dead at once |
//! | panics | is retried once, then dead |
//! | runs out of fuel or memory | is dead at once: it would run out again |
//! | runs past its deadline | is retried with backoff, then dead |

/// The example of the README is compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

// Public only for the macros, which expand in the author's crate.
#[doc(hidden)]
pub mod bindings;
#[doc(hidden)]
pub mod export;

pub mod config;
pub mod context;
mod failure;
mod host;
pub mod http;
mod job;
pub mod log;
mod outcome;
mod payload;
mod queue;
pub mod state;
#[cfg(not(target_family = "wasm"))]
pub mod testing;

pub use bindings::gristmill::job::types::{Job, Outcome, Payload};
pub use failure::{Failure, OrFail};
pub use outcome::{IntoOutcome, Json, snooze};
pub use queue::{AfterFailed, EnqueueError, NewJob, Priority};

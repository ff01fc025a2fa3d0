//! A client of a Gristmill server: pushes jobs, waits for their results, listens to events, and works jobs as a pull worker.
//!
//! ```no_run
//! use std::time::Duration;
//! use gristmill_client::{Client, NewJob};
//!
//! let jobs = Client::new(); // $GRISTMILL_SERVER, $GRISTMILL_TOKEN
//! let job = jobs.push("echo", NewJob::from(serde_json::json!({"hello": "Ada"})).keep_result(Duration::from_secs(60)))?;
//! println!("{:?}", jobs.wait(&job.id, Duration::from_secs(60))?.result);
//! # Ok::<(), gristmill_client::Error>(())
//! ```

mod client;
mod http;
mod new_job;
pub mod testing;
mod types;
mod worker;

pub use client::Client;
pub use new_job::NewJob;
pub use types::{End, Ending, Error, Event, Events, Failure, Filter, Job, Output, Payload, Pushed, Work};

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
mod events;
mod http;
mod job;
pub mod testing;
mod worker;

pub use client::{Client, End, Failure, Pushed};
pub use events::{Event, Events, Filter};
pub use http::Error;
pub use job::{NewJob, Payload};
pub use worker::{Ending, Job, Output, Work};

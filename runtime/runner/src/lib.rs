//! The runner claims jobs from the store, runs them in the sandbox, and settles them.
//!
//! ```text
//! listen ──ready──► claim ──work──► guests or native: execute ─► decide ──► settle ──► record
//!    └────due─────► migrate                          │ └─ checkpoint, extend ─► lease_extender
//!                   tenants: lists those whose jobs the runner migrates, reaps and sweeps, also without a topic here
//!                   reap: heartbeat; overdue ─► decide ─────────────► settle
//!                   sweep: what has outlived its limits is dropped and counted
//!                   deployments: which versions of handlers do topics' jobs, as the store says
//!                   trial: a version that does a share of the jobs is promoted or rolled back
//!                   full: whether tenants whose schedules fire may have more in the store
//!                   bill: what attempts cost is added up, and written to the store once a second
//!                   parked: jobs that an older version of a handler parked run again with a new one
//!                   schedules: the store's schedules are made those of the manifest
//!                   progress: how far attempts are is passed on
//!                   recordings: what the host answered is stored beside the jobs
//!                   journal: this runner's attempts are written down, where the manifest says so
//!                   recent: the last attempts are kept in memory, where a server shows them
//!                   traces: attempts that are kept become spans, where the manifest says so
//! ```
//!
//! `start` starts these tasks. `path/` has those that a job passes; `trial` and `parked` are in `deployments/`, `full` is in `limits/`. Guests run on
//! threads of their own, native handlers on the runtime that the runner was started in; the loops that talk to the store run elsewhere, so that a guest
//! in a tight loop delays no other job's settle. Nothing waits for a poll: a push wakes `listen`, the next due time sets the timer of `migrate`; a slow tick
//! is the safety net under both.

pub mod handlers;

mod bill;
mod context;
mod deployments;
mod journal;
mod limits;
mod line_file;
mod listen;
pub mod native;
mod path;
mod precise_timer;
mod progress;
mod recent;
mod record;
mod recordings;
mod schedules;
mod slots;
mod start;
mod store_retry;
mod tasks;
mod tenants;
#[cfg(feature = "otel")]
mod traces;
#[cfg(not(feature = "otel"))]
#[path = "without_otel.rs"]
mod traces;
pub mod why;

pub use bill::BillWriter;
pub use deployments::{Decision, NotDecided, share_jobs};
pub use gristmill_sandbox::{RecordedCall, RecordedLine, Recording, Version};
pub use handlers::DeploymentRecords;
pub use journal::{AttemptLine, Journal};
pub use limits::storage::{Added, Full, StorageUse};
pub use line_file::{LineFile, LineFileError, LineKind};
pub use path::decide::decide;
pub use recent::{LoggedLine, RecentAttempt, RecentAttempts, RecentWanted, RunTimes};
pub use record::{AttemptRecord, Observer, Run};
pub use slots::fleet_use::Shares;
pub use start::{Runner, RunnerSettings};
pub use tasks::{Broken, Tasks};
pub use tenants::Tenants;
pub use traces::Traces;
#[cfg(feature = "otel")]
pub use traces::TracesError;

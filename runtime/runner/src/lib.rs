//! The runner claims jobs from the store, runs them in the sandbox, and settles them.
//!
//! ```text
//! listen ──ready──► claim ──work──► guests: execute ─► decide ──► settle ──► record
//!    └────due─────► migrate                │ └─ checkpoint, extend ─► lease_extender
//!                   tenants: lists those whose jobs the runner migrates, reaps and sweeps, also without a topic here
//!                   reap: heartbeat; overdue ─► decide ─────────────► settle
//!                   sweep: what has outlived its limits is dropped and counted
//!                   deployments: which versions of handlers do topics' jobs, as the store says
//!                   trial: a version that does a share of the jobs is promoted or rolled back
//!                   full: whether tenants whose schedules fire may have more in the store
//!                   bill: what attempts cost is added up, and written to the store once a second
//!                   journal: every attempt is written down, where the manifest says so
//!                   recent: the last attempts are kept in memory, where a server shows them
//!                   traces: attempts that are kept become spans, where the manifest says so
//! ```
//!
//! One file per actor. Guests run on threads of their own; everything that talks to the store runs elsewhere, so that a
//! guest in a tight loop delays no other job's settle. Nothing polls when idle: a push wakes `listen`, the next due time
//! sets the timer of `migrate`; a slow tick is the safety net under both.

pub mod handlers;

mod begun;
mod bill;
mod claim;
mod claim_memory;
mod context;
mod decide;
mod deployments;
mod execute;
mod fleet_use;
mod full;
mod guest;
mod guest_server;
mod guests;
mod in_flight;
mod journal;
mod lease;
mod lease_extender;
mod line_file;
mod listen;
mod lost_claims;
mod migrate;
pub mod native;
mod parked;
mod precise_timer;
mod processor_clock;
mod progress;
mod ready_topics;
mod reap;
mod recent;
mod record;
mod recordings;
mod run_queue;
mod schedules;
mod settle;
mod shares;
mod slots;
mod start;
mod store_retry;
mod stored;
mod sweep;
mod tasks;
mod tenants;
#[cfg(feature = "otel")]
mod traces;
#[cfg(not(feature = "otel"))]
#[path = "without_otel.rs"]
mod traces;
mod trap_streaks;
mod trial;
mod turns;
pub mod why;
mod work;

pub use bill::BillWriter;
pub use decide::decide;
pub use deployments::{Decision, NotDecided, share_jobs};
pub use fleet_use::Shares;
pub use gristmill_sandbox::{RecordedCall, RecordedLine, Recording, Version};
pub use handlers::DeploymentRecords;
pub use journal::{AttemptLine, Journal};
pub use line_file::{Line, LineFile, LineFileError};
pub use recent::{LoggedLine, RecentAttempt, RecentAttempts, RecentWanted, RunTimes};
pub use record::{AttemptRecord, Observer, Run};
pub use start::{Runner, RunnerSettings};
pub use stored::{Added, Full, Stored};
pub use tasks::{Broken, Tasks};
pub use tenants::Tenants;
pub use traces::Traces;
#[cfg(feature = "otel")]
pub use traces::TracesError;

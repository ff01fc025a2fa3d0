//! What a runner measures: numbers for Prometheus, and events for the clients that stream them.
//!
//! The code that does something counts it here, by plain atomics, and for the last minute of a topic below a
//! lock that is held only briefly: no allocation per job. This crate knows no
//! store, sandbox or HTTP server. Every label has a bound: topics and tenants by `topics`, routes by their templates,
//! everything else by a list in the code. Reference for people: `docs/reference/metrics.md` and `docs/reference/events.md`.
//!
//! Why not the crate `prometheus-client`: its histograms take a mutex for each observation, and an attempt makes five; it
//! writes OpenMetrics only, and the plain text format is served as well; its families have no bound on their labels, and no
//! view of one tenant. Here a metric is a row in a table (`exposition`), which is no longer than registering it there.

mod actor;
mod calls;
mod event;
mod events;
mod exposition;
mod handlers;
mod histogram;
mod process;
mod registry;
mod requests;
mod topic;
mod topics;
mod versions;

pub use actor::{actor, as_actor};
pub use calls::CallResult;
pub use event::{BulkFacts, Event, EventKind};
pub use events::{EventStream, Events, Filter, Received};
pub use exposition::{Exposition, Family, Format, Measured, Metric, MetricType, metric};
pub use handlers::Reload;
pub use registry::Metrics;
pub use requests::{Connection, Request, Requests};
pub use topic::{Attempt, AttemptEnd, TopicMeter, Usage};
pub use versions::{RecentByVersion, RecentOfVersion};

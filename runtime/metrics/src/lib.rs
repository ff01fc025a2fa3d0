//! What the house tells of itself: numbers for who scrapes, events for who listens.
//!
//! Whoever does something counts it here, by plain atomics: no lock and no allocation a job. Nothing here knows a store, a
//! sandbox or a door; [`page`] writes down what was counted, and `http/` shows it. Every label has a bound: topics and
//! tenants by [`topics`], routes by their templates, everything else by a list in the code. Reference for people:
//! `docs/metrics.md` and `docs/events.md`.

mod calls;
mod event;
mod events;
mod exposition;
mod handlers;
mod histogram;
mod process;
mod registry;
mod requests;
mod sources;
mod topic;
mod topics;

pub use calls::{CallResult, Operation};
pub use event::{Event, EventKind};
pub use events::{EventStream, Events, Filter, Received, TooManyStreams};
pub use exposition::{Exposition, Format, MetricType};
pub use handlers::Reload;
pub use registry::Metrics;
pub use requests::{Connection, Request, Requests};
pub use topic::{Attempt, End, TopicMeter, Usage};

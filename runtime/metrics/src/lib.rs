//! What the house tells of itself: numbers for who scrapes, events for who listens.
//!
//! Whoever does something counts it here, by plain atomics: no lock and no allocation a job. Nothing here knows a store, a
//! sandbox or a door; [`page`] writes down what was counted, and `http/` shows it. Every label has a bound: topics and
//! tenants by [`topics`], routes by their templates, everything else by a list in the code. Reference for people:
//! `docs/metrics.md` and `docs/events.md`.

mod calls;
mod event;
mod events;
mod handlers;
mod histogram;
mod home;
mod page;
mod process;
mod requests;
mod sources;
mod topic;
mod topics;

pub use calls::{Answer, Operation};
pub use event::{Event, Kind};
pub use events::{Events, Filter, Listener, Told, TooMany};
pub use handlers::Reload;
pub use home::Metrics;
pub use page::{Format, Page, Sort};
pub use requests::{Connection, Request, Requests};
pub use topic::{Attempt, End, Ran, TopicMeter};

//! Answers that go on, and requests that wait: signals, events, and the watching of one job.

pub(crate) mod events;
pub(crate) mod signal_hub;
pub(crate) mod signals;
pub(crate) mod sse;
pub(crate) mod watch;

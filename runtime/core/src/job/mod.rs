//! What a job is: its names, its payload, and an attempt at it.

mod claim;
mod links;
mod names;
#[macro_use]
mod options;
mod progress;
mod spec;
mod unique;

pub use claim::{Claim, Lease};
pub use links::{
    AFTER, AfterFailed, Ended, MEMBERS, NoLink, PREDECESSORS, PREDECESSORS_FAILED, PREDECESSORS_TOTAL, RESERVED,
    WAITERS, reserved,
};
pub use names::{BadJobId, BadName, DEFAULT_TENANT, JobId, Name, TopicId, WorkerId};
pub use options::JobOptions;
pub use progress::Progress;
pub use spec::{Due, Job, JobChange, JobSpec, NewJob, PAIRS, Payload, Priority};
pub use unique::Unique;

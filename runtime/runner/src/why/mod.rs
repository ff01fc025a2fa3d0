//! Why a job is not running, and why a topic begins no job: what the store and this process know, in one sentence and as data.

mod forecast;
mod idle;
mod job;
mod limit;
mod served;
mod serving;
#[cfg(test)]
mod tests;
mod topic;

pub use forecast::ExpectedBy;
pub use idle::{Idle, IdleReason, LimitCounts};
pub use job::{IN_NO_PLACE, Why, WhyReason, is_in_no_place, unique_holder, why};
pub use served::{ProcessRole, Runners, Served};
pub use serving::Serving;
pub use topic::{TopicWhy, idle, topic_why};

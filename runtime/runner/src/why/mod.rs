//! Why a job is not running, and why a topic begins no job: what the store and this process know, in one sentence and as data.

mod forecast;
mod job;
mod served;
mod serving;
#[cfg(test)]
mod tests;

pub use forecast::ExpectedBy;
pub use job::{IN_NO_PLACE, Why, WhyReason, is_in_no_place, unique_holder, why};
pub use served::{ProcessRole, Runners, Served};
pub use serving::{Idle, IdleReason, LimitCounts, Serving, TopicWhy, idle, topic_why};

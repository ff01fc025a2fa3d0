//! Why a job is not running, and why a topic begins no job: what the store and this process know, in one sentence and as data.

mod job;
mod serving;

pub use job::{Why, why};
pub use serving::{Idle, IdleReason, Serving, TopicWhy, idle, topic_why};

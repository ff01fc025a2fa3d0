//! The follow-ups of one attempt, and their rules: the same for components, native handlers and pull workers.

use super::{Refused, Targets};
use crate::job::{Name, NewJob, TopicId};
use crate::topic::Grants;

/// Bytes of all follow-ups of one attempt, headers included: they wait in the host's memory and go to the store in one piece.
/// The first follow-up is held to the rules of its topic only.
pub const FOLLOW_UPS_BYTES: u64 = 16 << 20;

/// What the topic of an attempt says about its follow-ups.
#[derive(Debug, Clone, Copy)]
pub struct FollowUpRules<'a> {
    /// The tenant of the attempt: follow-ups stay in it.
    pub tenant: &'a Name,
    /// The topics that the attempt's topic may enqueue to.
    pub grants: &'a Grants,
    /// The rules of these topics.
    pub targets: &'a Targets,
    /// Follow-ups of one attempt, at most.
    pub count: u32,
}

/// Why a follow-up is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum NoFollowUp {
    /// The topic is of another tenant, or not granted, whether it exists or not.
    #[error("the topic is not granted to enqueue to `{0}`")]
    Denied(TopicId),
    #[error("the tenant has no topic `{0}`")]
    UnknownTopic(TopicId),
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error("an attempt at the topic enqueues at most {0} jobs: see its `follow-ups`")]
    TooMany(u32),
    #[error("the follow-ups of an attempt have at most {FOLLOW_UPS_BYTES} bytes together")]
    TooLarge,
}

/// The follow-ups of one attempt.
#[derive(Debug, Default)]
pub struct FollowUps {
    jobs: Vec<NewJob>,
    bytes: u64,
}

impl FollowUps {
    /// Admits a follow-up by the rules of its topic, and keeps it.
    ///
    /// # Errors
    /// The first rule that the job breaks. Nothing has changed then.
    pub fn add(&mut self, job: NewJob, of: &FollowUpRules<'_>) -> Result<(), NoFollowUp> {
        let TopicId { tenant, topic } = &job.spec.topic;
        let granted = of.grants.enqueue.as_ref().is_none_or(|granted| granted.contains(topic));
        if tenant != of.tenant || !granted {
            return Err(NoFollowUp::Denied(job.spec.topic));
        }
        let Some(rules) = of.targets.get(topic) else { return Err(NoFollowUp::UnknownTopic(job.spec.topic)) };
        let job = rules.admit(job)?;
        if self.jobs.len() as u64 >= u64::from(of.count) {
            return Err(NoFollowUp::TooMany(of.count));
        }
        let bytes = self.bytes + job.spec.body.data.len() as u64 + job.spec.header_bytes();
        if !self.jobs.is_empty() && bytes > FOLLOW_UPS_BYTES {
            return Err(NoFollowUp::TooLarge);
        }
        self.bytes = bytes;
        self.jobs.push(job);
        Ok(())
    }

    /// Whether the attempt enqueued nothing.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Takes all of them out.
    pub fn take(&mut self) -> Vec<NewJob> {
        std::mem::take(self).jobs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::{BODY_BYTES, Rules};
    use crate::job::{Due, JobSpec, Payload};

    fn add(follow_ups: &mut FollowUps, topic: &str, bytes: u64, grants: &Grants) -> Result<(), NoFollowUp> {
        let targets =
            Targets::from([("mail".parse().unwrap(), Rules { payload_bytes: BODY_BYTES, ..Rules::default() })]);
        let tenant = "acme".parse().unwrap();
        let body = Payload { data: vec![7; bytes as usize], content_type: None };
        let job = NewJob { spec: JobSpec::new(topic.parse().unwrap(), body), due: Due::Now };
        follow_ups.add(job, &FollowUpRules { tenant: &tenant, grants, targets: &targets, count: 3 })
    }

    #[test]
    fn a_target_that_is_not_granted_is_denied_whether_or_not_it_exists() {
        let (mut follow_ups, all) = (FollowUps::default(), Grants::default());
        let some = Grants { enqueue: Some(vec!["other".parse().unwrap()]), ..Grants::default() };
        let mut add = |topic: &str, grants| add(&mut follow_ups, topic, 1, grants);
        let named = |topic: &str| topic.parse().unwrap();
        assert_eq!(add("acme/mail", &all), Ok(()));
        assert_eq!(add("acme/other", &all), Err(NoFollowUp::UnknownTopic(named("acme/other"))));
        assert_eq!(add("acme/mail", &some), Err(NoFollowUp::Denied(named("acme/mail"))));
        assert_eq!(add("acme/other", &some), Err(NoFollowUp::UnknownTopic(named("acme/other"))));
        assert_eq!(add("beta/mail", &all), Err(NoFollowUp::Denied(named("beta/mail"))));
    }

    #[test]
    fn follow_ups_are_bounded_in_number_and_in_bytes() {
        let all = Grants::default();
        let sizes = |sizes: [u64; 4]| {
            let mut follow_ups = FollowUps::default();
            sizes.map(|bytes| add(&mut follow_ups, "acme/mail", bytes, &all))
        };
        let half = FOLLOW_UPS_BYTES / 2;
        assert_eq!(sizes([1, 1, 1, 1]), [Ok(()), Ok(()), Ok(()), Err(NoFollowUp::TooMany(3))]);
        assert_eq!(sizes([half, half + 1, half, 0]), [Ok(()), Err(NoFollowUp::TooLarge), Ok(()), Ok(())]);
        assert_eq!(sizes([FOLLOW_UPS_BYTES + 1, 0, 0, 0]).map(|added| added.is_ok()), [true, false, false, false]);
    }
}

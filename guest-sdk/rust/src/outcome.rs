//! What a handler may return when it succeeds.

use std::time::Duration;

use serde::Serialize;

use crate::{Failure, Outcome, Payload};

/// A value that ends an attempt well. Everything but [`Outcome`] itself completes the job.
pub trait IntoOutcome {
    /// # Errors
    ///
    /// The value cannot be turned into bytes; only [`Json`] can fail so.
    fn into_outcome(self) -> Result<Outcome, Failure>;
}

/// A result of `application/json`; the value is any that serde can write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Json<T>(pub T);

/// Neither finished nor failed: run this job again after `wait`, without using up an attempt.
///
/// Follow-up jobs of the attempt are kept. Whole milliseconds; what is beyond 2^64 of them is cut off there.
pub fn snooze(wait: Duration) -> Outcome {
    Outcome::Snooze(whole_millis(wait))
}

/// 584 million years are enough: a longer wait is that long.
pub(crate) fn whole_millis(wait: Duration) -> u64 {
    u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)
}

impl IntoOutcome for Outcome {
    fn into_outcome(self) -> Result<Outcome, Failure> {
        Ok(self)
    }
}

/// Completes without a result.
impl IntoOutcome for () {
    fn into_outcome(self) -> Result<Outcome, Failure> {
        Ok(Outcome::Complete(None))
    }
}

impl IntoOutcome for Payload {
    fn into_outcome(self) -> Result<Outcome, Failure> {
        Ok(Outcome::Complete(Some(self)))
    }
}

/// Opaque octets.
impl IntoOutcome for Vec<u8> {
    fn into_outcome(self) -> Result<Outcome, Failure> {
        Payload::from(self).into_outcome()
    }
}

/// `text/plain`.
impl IntoOutcome for String {
    fn into_outcome(self) -> Result<Outcome, Failure> {
        Payload::from(self).into_outcome()
    }
}

/// `text/plain`.
impl IntoOutcome for &str {
    fn into_outcome(self) -> Result<Outcome, Failure> {
        Payload::from(self).into_outcome()
    }
}

impl<T: Serialize> IntoOutcome for Json<T> {
    fn into_outcome(self) -> Result<Outcome, Failure> {
        Payload::json(&self.0)?.into_outcome()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn every_result_says_what_it_is() {
        let result = |outcome: Result<Outcome, Failure>| match outcome {
            Ok(Outcome::Complete(payload)) => payload,
            other => panic!("{other:?} does not complete"),
        };
        assert_eq!(result(().into_outcome()), None);
        assert_eq!(result("ä".into_outcome()), Some(Payload::new("ä", "text/plain; charset=utf-8")));
        assert_eq!(result(vec![0, 255].into_outcome()), Some(Payload { data: vec![0, 255], content_type: None }));
        assert_eq!(result(Json([1, 2]).into_outcome()), Some(Payload::new("[1,2]", "application/json")));
    }

    #[test]
    fn a_value_that_is_no_json_is_rejected() {
        let by_pair = BTreeMap::from([((1, 2), 3)]);
        let failure = Json(by_pair).into_outcome().expect_err("a tuple is no JSON key");
        assert_eq!(failure.code(), "unserializable");
        assert!(!failure.is_retry());
    }

    #[test]
    fn an_endless_snooze_is_the_longest_there_is() {
        assert_eq!(snooze(Duration::from_micros(1_999)), Outcome::Snooze(1));
        assert_eq!(snooze(Duration::MAX), Outcome::Snooze(u64::MAX));
    }
}

//! A failed attempt, in the handler's own words.

use std::error::Error;
use std::time::Duration;

use crate::Payload;
use crate::bindings::gristmill::job::types;
use crate::outcome::whole_millis;

/// Why an attempt failed, and whether another is worth it.
///
/// Any error turns into a retry through `?`, with the code `error` and its whole chain of sources as message: most
/// errors a handler meets are the world's and may pass. Say [`OrFail::or_reject`] where they will not.
///
/// It does not implement `std::error::Error` itself; otherwise that conversion would contradict `From<Failure> for Failure`.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    worth: Worth,
    detail: types::FailureDetail,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Worth {
    Retry { after: Option<Duration> },
    Reject,
}

impl Failure {
    /// Transient: the job is tried again after the topic's backoff, until its attempts are used up.
    ///
    /// `code` is stable and for machines, such as `upstream-timeout`; `message` is for people.
    pub fn retry(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Worth::Retry { after: None }, code.into(), message.into())
    }

    /// Permanent: the job goes to the dead letters at once.
    pub fn reject(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Worth::Reject, code.into(), message.into())
    }

    fn new(worth: Worth, code: String, message: String) -> Self {
        Self { worth, detail: types::FailureDetail { code, message, context: None } }
    }

    /// Waits this long instead of the topic's backoff; in whole milliseconds. Means nothing to a reject.
    #[must_use]
    pub fn after(mut self, wait: Duration) -> Self {
        if let Worth::Retry { after } = &mut self.worth {
            *after = Some(wait);
        }
        self
    }

    /// Keeps something with the attempt, such as the upstream's answer. Counts towards the output limit.
    #[must_use]
    pub fn with_context(mut self, context: impl Into<Payload>) -> Self {
        self.detail.context = Some(context.into());
        self
    }

    /// The machine-readable code.
    pub fn code(&self) -> &str {
        &self.detail.code
    }

    /// The text for people.
    pub fn message(&self) -> &str {
        &self.detail.message
    }

    /// The payload that explains the failure, if there is one.
    pub fn context(&self) -> Option<&Payload> {
        self.detail.context.as_ref()
    }

    /// Whether the job is to be tried again.
    pub fn is_retry(&self) -> bool {
        matches!(self.worth, Worth::Retry { .. })
    }

    /// The wait asked for, if any.
    pub fn retry_after(&self) -> Option<Duration> {
        if let Worth::Retry { after } = self.worth { after } else { None }
    }

    pub(crate) fn into_wire(self) -> types::Failure {
        match self.worth {
            Worth::Retry { after } => types::Failure::Retry((self.detail, after.map(whole_millis))),
            Worth::Reject => types::Failure::Reject(self.detail),
        }
    }
}

impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::retry("error", chain(&error))
    }
}

/// `outer: middle: innermost`.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text.push_str(": ");
        text.push_str(&source.to_string());
        next = source.source();
    }
    text
}

/// Says of an error, or of a value that is not there, whether another attempt is worth it.
///
/// ```
/// use gristmill_guest::OrFail;
///
/// let failure = "one".parse::<u32>().or_reject("bad-count").unwrap_err();
/// assert_eq!((failure.code(), failure.message()), ("bad-count", "invalid digit found in string"));
/// ```
pub trait OrFail<T> {
    /// # Errors
    ///
    /// A [`Failure::reject`] with this code, and with the error's chain as message.
    fn or_reject(self, code: &str) -> Result<T, Failure>;

    /// # Errors
    ///
    /// A [`Failure::retry`] with this code, and with the error's chain as message.
    fn or_retry(self, code: &str) -> Result<T, Failure>;
}

impl<T, E: Error> OrFail<T> for Result<T, E> {
    fn or_reject(self, code: &str) -> Result<T, Failure> {
        self.map_err(|error| Failure::reject(code, chain(&error)))
    }

    fn or_retry(self, code: &str) -> Result<T, Failure> {
        self.map_err(|error| Failure::retry(code, chain(&error)))
    }
}

impl<T> OrFail<T> for Option<T> {
    fn or_reject(self, code: &str) -> Result<T, Failure> {
        self.ok_or_else(|| Failure::reject(code, NOTHING))
    }

    fn or_retry(self, code: &str) -> Result<T, Failure> {
        self.ok_or_else(|| Failure::retry(code, NOTHING))
    }
}

const NOTHING: &str = "there is no value";

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Outer(std::num::ParseIntError);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("failed to read the count")
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    fn count(text: &str) -> Result<u32, Outer> {
        text.parse().map_err(Outer)
    }

    #[test]
    fn the_question_mark_makes_any_error_a_retry_with_its_chain() {
        let handle = || -> Result<u32, Failure> { Ok(count("x")?) };
        let expected = Failure::retry("error", "failed to read the count: invalid digit found in string");
        assert_eq!(handle(), Err(expected));
    }

    #[test]
    fn the_author_may_know_better() {
        let failure = count("x").or_reject("bad-count").expect_err("x is no count");
        assert_eq!((failure.code(), failure.is_retry()), ("bad-count", false));
        assert_eq!(count("7").or_retry("bad-count"), Ok(7));
        assert_eq!(None::<u32>.or_retry("no-count"), Err(Failure::retry("no-count", NOTHING)));
    }

    #[test]
    fn a_wait_belongs_to_a_retry_only() {
        let wait = Duration::from_secs(90);
        let failure = Failure::retry("busy", "try later").after(wait);
        assert_eq!(failure.retry_after(), Some(wait));
        assert!(matches!(failure.into_wire(), types::Failure::Retry((_, Some(90_000)))));
        assert_eq!(Failure::reject("no", "never").after(wait).retry_after(), None);
    }

    #[test]
    fn context_is_kept_with_the_attempt() {
        let failure = Failure::retry("upstream", "said 503").with_context("<html>");
        assert_eq!(failure.context(), Some(&Payload::from("<html>")));
    }
}

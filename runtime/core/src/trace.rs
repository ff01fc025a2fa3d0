//! Trace context, by which spans of several programs become one trace: <https://www.w3.org/TR/trace-context/>.

use std::fmt;

use sha2::{Digest, Sha256};

use super::job::{Claim, JobSpec, NewJob};

/// The name of the header, and of the pair of metadata, that a context stands in.
pub const TRACEPARENT: &str = "traceparent";
/// The name of the pair of metadata beside it that marks jobs which a handler enqueued.
const TRACESTATE: &str = "tracestate";
/// Its value: the job continues the trace of the job that enqueued it.
const FOLLOW_UP: &str = "gristmill=follow-up";
/// Version 00: `00-` 32 digits `-` 16 digits `-` 2 digits.
const TEXT_BYTES: usize = 55;

/// A span, as other spans name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace. Not all zeros.
    pub trace: [u8; 16],
    /// The span within it. Not all zeros.
    pub span: [u8; 8],
    /// Whether the program that made the span keeps it.
    pub sampled: bool,
}

/// The id of a trace: 32 digits, written only where they are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceId([u8; 16]);

impl TraceContext {
    /// Reads the value of a `traceparent`. Returns `None` if it breaks the rules of the standard; then it counts as missing.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let [version, trace, span, flags] = [parts.next()?, parts.next()?, parts.next()?, parts.next()?];
        let ends = parts.next().is_none() && text.len() == TEXT_BYTES;
        // A later version may add parts at the end.
        if version == "ff" || (version == "00" && !ends) || text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return None;
        }
        digits::<1>(version)?;
        let context = Self { trace: digits(trace)?, span: digits(span)?, sampled: digits::<1>(flags)?[0] & 1 == 1 };
        (context.trace != [0; 16] && context.span != [0; 8]).then_some(context)
    }

    /// The context in which the job was made, if its producer, or the handler that enqueued it, gave one.
    pub fn of_creation(job: &JobSpec) -> Option<Self> {
        let (_, value) = job.metadata.iter().find(|(name, _)| name == TRACEPARENT)?;
        Self::parse(value)
    }

    /// Which span an attempt is, in a trace of its job: of the same job always the same trace, of each delivery another span.
    /// It is computed, so that nothing has to be kept: all runners and all later attempts know it.
    pub fn of_attempt(claim: &Claim) -> Self {
        let spec = &claim.job.spec;
        let mut hash = Sha256::new();
        for part in [spec.topic.tenant.as_str().as_bytes(), spec.id.as_str().as_bytes()] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hash.update(claim.job.enqueued_at.as_millis().to_be_bytes());
        let hash: [u8; 32] = hash.finalize().into();
        let (trace, rest) = hash.split_first_chunk().unwrap_or((&[0; 16], &[]));
        let span = rest.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes)) ^ claim.lease.delivery;
        Self { trace: *trace, span: span.max(1).to_be_bytes(), sampled: false }
    }

    /// The span of a request of this attempt, by the request's number: another one of the same trace, computed as that of the attempt.
    pub fn of_request(&self, number: u64) -> Self {
        let mut hash = Sha256::new();
        hash.update(self.trace);
        hash.update(self.span);
        hash.update(number.to_be_bytes());
        let hash: [u8; 32] = hash.finalize().into();
        let span = hash.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        Self { span: span.max(1).to_be_bytes(), ..*self }
    }

    /// The trace's id.
    pub fn trace_id(&self) -> TraceId {
        TraceId(self.trace)
    }

    /// Gives the context to a job that a handler enqueues, unless the handler gave it one of its own.
    pub fn pass_on(&self, follow_up: &mut NewJob) {
        let metadata = &mut follow_up.spec.metadata;
        if metadata.iter().all(|(name, _)| name != TRACEPARENT) {
            metadata.push((TRACEPARENT.to_owned(), self.to_string()));
            metadata.push((TRACESTATE.to_owned(), FOLLOW_UP.to_owned()));
        }
    }

    /// Whether a handler enqueued the job and [`TraceContext::pass_on`] gave it its context.
    pub fn was_passed_on(job: &JobSpec) -> bool {
        job.metadata.iter().any(|(name, value)| name == TRACESTATE && value == FOLLOW_UP)
    }
}

fn digits<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    hex::decode_to_slice(text, &mut bytes).ok()?;
    Some(bytes)
}

impl fmt::Display for TraceContext {
    /// As the value of a `traceparent`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trace, span, sampled } = self;
        write!(f, "00-{}-{}-{:02x}", hex::encode(trace), hex::encode(span), u8::from(*sampled))
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Due, Payload};

    const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_context_is_read_and_written_alike() {
        let context = TraceContext::parse(GIVEN).unwrap();
        assert!(context.sampled);
        assert_eq!(context.to_string(), GIVEN);
        assert_eq!(context.trace_id().to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
    }

    #[test]
    fn a_later_version_may_say_more() {
        let later = GIVEN.replacen("00", "cc", 1) + "-what-comes-later";
        assert_eq!(TraceContext::parse(&later), TraceContext::parse(GIVEN));
    }

    #[test]
    fn what_breaks_the_rules_counts_as_missing() {
        let zeros = "0".repeat(32);
        for wrong in [
            "",
            "00",
            &GIVEN[..54],
            &format!("{GIVEN}-"),
            &format!("{GIVEN}0"),
            &GIVEN.to_uppercase(),
            &GIVEN.replacen("00", "ff", 1),
            &GIVEN.replacen("00", "0x", 1),
            &GIVEN.replace("4bf92f3577b34da6a3ce929d0e0e4736", &zeros),
            &GIVEN.replace("00f067aa0ba902b7", "0000000000000000"),
            &GIVEN.replace("-00f067aa0ba902b7", "-00f067aa0ba902bé"),
        ] {
            assert_eq!(TraceContext::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn requests_of_an_attempt_are_other_spans_of_its_trace() {
        let attempt = TraceContext::parse(GIVEN).unwrap();
        let [first, second] = [0, 1].map(|number| attempt.of_request(number));
        assert_eq!((first.trace, first.sampled), (attempt.trace, attempt.sampled));
        assert!(first.span != second.span && first.span != attempt.span);
        assert_eq!(first, attempt.of_request(0));
    }

    #[test]
    fn a_context_of_the_handler_is_left_alone() {
        let context = TraceContext::parse(GIVEN).unwrap();
        let spec = JobSpec::new("mail".parse().unwrap(), Payload::default());
        let mut plain = NewJob { spec, due: Due::Now };
        let mut own = plain.clone();
        context.pass_on(&mut plain);
        assert_eq!(TraceContext::of_creation(&plain.spec), Some(context));
        assert!(TraceContext::was_passed_on(&plain.spec));
        own.spec.metadata.push((TRACEPARENT.to_owned(), "theirs".to_owned()));
        context.pass_on(&mut own);
        assert_eq!(own.spec.metadata.len(), 1);
    }
}

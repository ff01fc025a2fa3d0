//! A stored job: a stamp that the script writes, and an envelope that we do.
//!
//! ```text
//! 8 bytes   enqueued at, big-endian ms since the Unix epoch
//! 8 bytes   due at, in the same form; with 2^52 added if a producer has named the time
//! the rest  MessagePack map with one-character keys; what is absent is left out
//! ```
//!
//! The stamp is apart from the envelope because the server's clock writes it, in the same step that stores the job. The
//! keys extend those of raw producers: `2` topic, `4` payload. Under `o` is a map of what else the producer says, by the letters of
//! `job_options!`. A format after the first says so under `v`.

use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::clock::point_ms;
use gristmill_core::job::{BadName, Job, JobId, JobOptions, JobSpec, Name, Payload, TopicId};
use gristmill_core::json::is_default;
use gristmill_core::time::Timestamp;

/// The format that is written, and the only one there is so far. It is implied where `v` is absent.
const VERSION: u64 = 1;

/// What the stamp adds to a due time that a producer has named, as `prelude.lua` does.
const FIXED: u64 = 1 << 52;

#[derive(Serialize, Deserialize)]
struct Envelope<'a, O> {
    #[serde(rename = "v", default, skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    #[serde(rename = "2", borrow)]
    topic: Cow<'a, str>,
    #[serde(rename = "4", borrow, with = "serde_bytes")]
    payload: Cow<'a, [u8]>,
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    content_type: Option<Cow<'a, str>>,
    #[serde(rename = "m", default, skip_serializing_if = "is_default")]
    metadata: Cow<'a, [(String, String)]>,
    #[serde(rename = "o", skip_serializing_if = "Option::is_none")]
    options: Option<O>,
}

/// The envelope of a job, without the stamp.
pub(super) fn write(spec: &JobSpec) -> Result<Vec<u8>, rmp_serde::encode::Error> {
    rmp_serde::to_vec_named(&Envelope {
        version: None,
        topic: Cow::Borrowed(spec.topic.topic.as_str()),
        payload: Cow::Borrowed(&spec.body.data),
        content_type: spec.body.content_type.as_deref().map(Cow::Borrowed),
        metadata: Cow::Borrowed(&spec.metadata),
        options: Some(&spec.options).filter(|options| !is_default(*options)),
    })
}

/// A job with its stamp, as it is stored.
pub fn write_stored(job: &Job) -> Result<Vec<u8>, rmp_serde::encode::Error> {
    let stamp = [job.enqueued_at, job.due_at].map(|at| point_ms(at).to_be_bytes());
    Ok([stamp.as_flattened(), &write(&job.spec)?].concat())
}

/// Why a stored job cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("it is {0} bytes long, too short for a stamp and an envelope")]
    Short(usize),
    #[error("it is in format {0}, and this version knows formats up to {VERSION}")]
    Version(u64),
    #[error("its envelope is no MessagePack map of the known kind: {0}")]
    Envelope(#[from] rmp_serde::decode::Error),
    #[error("{0}")]
    Topic(#[from] BadName),
}

/// Reads stamp and envelope of the job `id` of `tenant`.
pub fn read(tenant: &Name, id: JobId, stored: &[u8]) -> Result<Job, Unreadable> {
    let (mut job, body) = read_as(tenant, None, id, stored)?;
    job.spec.body.data = body.into_owned();
    Ok(job)
}

/// The same of a job that is in a line of `topic`, so that its topic is mostly that one: then the job shares the name.
pub(super) fn read_from(topic: &TopicId, id: JobId, stored: Vec<u8>) -> Result<Job, Unreadable> {
    let (mut job, body) = read_as(&topic.tenant, Some(&topic.topic), id, &stored)?;
    job.spec.body.data = match body {
        // It stays where it is, since nearly all that is stored is the body.
        Cow::Borrowed(body) if body.len() >= stored.len() / 2 => {
            let begin = body.as_ptr().addr() - stored.as_ptr().addr();
            let end = begin + body.len();
            cut_out(stored, begin..end)
        }
        body => body.into_owned(),
    };
    Ok(job)
}

fn cut_out(mut bytes: Vec<u8>, part: Range<usize>) -> Vec<u8> {
    bytes.truncate(part.end);
    bytes.drain(..part.start);
    bytes
}

/// A job that has everything but its body, and its body.
fn read_as<'s>(
    tenant: &Name,
    likely: Option<&Name>,
    id: JobId,
    stored: &'s [u8],
) -> Result<(Job, Cow<'s, [u8]>), Unreadable> {
    let (enqueued_at, due_at, packed) = stamp(stored).ok_or(Unreadable::Short(stored.len()))?;
    let envelope: Envelope<'_, Box<JobOptions>> = rmp_serde::from_slice(packed)?;
    if let Some(version) = envelope.version.filter(|version| *version != VERSION) {
        return Err(Unreadable::Version(version));
    }
    let spec = JobSpec {
        id,
        topic: TopicId {
            tenant: tenant.clone(),
            topic: match likely.filter(|likely| likely.as_str() == envelope.topic) {
                Some(topic) => topic.clone(),
                None => envelope.topic.parse()?,
            },
        },
        body: Payload { data: Vec::new(), content_type: envelope.content_type.map(Cow::into_owned) },
        metadata: envelope.metadata.into_owned(),
        options: envelope.options.map_or_else(JobOptions::default, |options| *options),
    };
    Ok((Job { spec, enqueued_at, due_at }, envelope.payload))
}

/// The topic of a stored job, also of one in a later format. For garbage it is `unreadable`, so that
/// the job has some place to be found in.
pub(super) fn topic(tenant: &Name, stored: &[u8]) -> Result<TopicId, BadName> {
    #[derive(Deserialize)]
    struct Address {
        #[serde(rename = "2")]
        topic: Name,
    }
    let address = stamp(stored).and_then(|(.., packed)| rmp_serde::from_slice::<Address>(packed).ok());
    let topic = address.map_or_else(|| "unreadable".parse(), |address| Ok(address.topic))?;
    Ok(TopicId { tenant: tenant.clone(), topic })
}

/// Reads a job to be shown to a person: of one that cannot be read, what is stored of it.
pub(super) fn show(topic: &TopicId, id: JobId, stored: &[u8]) -> Job {
    read(&topic.tenant, id.clone(), stored).unwrap_or_else(|_| placeholder(topic, id, stored))
}

/// A job that stands for one that cannot be read: its payload is what is stored.
pub(super) fn placeholder(topic: &TopicId, id: JobId, stored: &[u8]) -> Job {
    let (enqueued_at, due_at, rest) = stamp(stored).unwrap_or((Timestamp::default(), Timestamp::default(), stored));
    let mut spec = JobSpec::new(topic.clone(), Payload { data: rest.to_vec(), content_type: None });
    spec.id = id;
    Job { spec, enqueued_at, due_at }
}

fn stamp(stored: &[u8]) -> Option<(Timestamp, Timestamp, &[u8])> {
    let (enqueued, rest) = stored.split_first_chunk::<8>()?;
    let (due, rest) = rest.split_first_chunk::<8>()?;
    let at = |bytes: &[u8; 8]| Timestamp::from_millis(u64::from_be_bytes(*bytes) % FIXED);
    Some((at(enqueued), at(due), rest))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use gristmill_core::job::{Priority, Unique};

    fn tenant() -> Name {
        "acme".parse().unwrap()
    }

    fn id() -> JobId {
        "j1".parse().unwrap()
    }

    fn full() -> JobSpec {
        JobSpec {
            id: id(),
            topic: TopicId { tenant: tenant(), topic: "mail".parse().unwrap() },
            body: Payload { data: vec![0, 255], content_type: Some("a/b".into()) },
            metadata: vec![("x".into(), "1".into()), ("x".into(), "2".into())],
            options: JobOptions {
                key: Some("k1".into()),
                unique: Some(Unique { value: "u1".into(), window: None }),
                max_attempts: Some(3),
                ttl: Some(Duration::from_secs(60)),
                keep_result: Some(Duration::from_millis(5)),
                ..JobOptions::default()
            },
        }
    }

    fn stamped(envelope: &[u8]) -> Vec<u8> {
        [&1_795_176_245_006_u64.to_be_bytes(), &1_795_176_246_000_u64.to_be_bytes(), envelope].concat()
    }

    /// A job in format 1 that says all that has no default. Once a release has written this form, it must stay readable.
    const FULL_1: &[u8] = b"\x85\xa12\xa4mail\xa14\xc4\x02\x00\xff\xa1c\xa3a/b\xa1m\x92\x92\xa1x\xa11\x92\xa1x\xa12\
                            \xa1o\x85\xa1k\xa2k1\xa1u\xa2u1\xa1n\x03\xa1t\xcd\xea\x60\xa1r\x05";

    #[test]
    fn format_1_is_written_and_read() {
        assert_eq!(write(&full()).unwrap(), FULL_1);
        let job = read(&tenant(), id(), &stamped(FULL_1)).unwrap();
        assert_eq!(job.spec, full());
        assert_eq!(write_stored(&job).unwrap(), stamped(FULL_1));
        for line in ["mail", "other"] {
            let topic = TopicId { tenant: tenant(), topic: line.parse().unwrap() };
            assert_eq!(read_from(&topic, id(), stamped(FULL_1)).unwrap(), job, "in a line of {line}");
        }
        assert_eq!(job.enqueued_at, Timestamp::from_millis(1_795_176_245_006));
        assert_eq!(job.due_at, Timestamp::from_millis(1_795_176_246_000));
    }

    #[test]
    fn a_plain_job_costs_a_dozen_bytes() {
        let spec = JobSpec::new(full().topic, Payload { data: b"hi".to_vec(), content_type: None });
        let packed = write(&spec).unwrap();
        assert_eq!(packed, b"\x82\xa12\xa4mail\xa14\xc4\x02hi");
        assert_eq!(read(&tenant(), spec.id.clone(), &stamped(&packed)).unwrap().spec, spec);
    }

    #[test]
    fn options_are_written_where_they_are_not_the_usual() {
        let unique = Unique { value: "u".into(), window: Some(Duration::from_millis(7)) };
        let options = JobOptions { priority: Priority::Low, unique: Some(unique), open: true, ..JobOptions::default() };
        let spec = JobSpec { options, ..JobSpec::new(full().topic, Payload::default()) };
        let packed = write(&spec).unwrap();
        let expected =
            b"\x83\xa12\xa4mail\xa14\xc4\x00\xa1o\x83\xa1p\xa3low\xa1u\x82\xa5value\xa1u\xa9window_ms\x07\xa1o\xc3";
        assert_eq!(packed, expected);
        assert_eq!(read(&tenant(), spec.id.clone(), &stamped(&packed)).unwrap().spec, spec);
    }

    #[test]
    fn unknown_keys_are_skipped() {
        let job = read(&tenant(), id(), &stamped(b"\x84\xa12\xa1a\xa14\xc4\x00\xa1o\x82\xa1k\xa1k\xa1z\x01\xa1z\x01"))
            .unwrap();
        assert_eq!((job.spec.topic.topic.as_str(), job.spec.options.key.as_deref()), ("a", Some("k")));
    }

    #[test]
    fn garbage_is_recognised() {
        let problem = |stored: &[u8]| read(&tenant(), id(), stored).unwrap_err();
        assert!(matches!(problem(b"short"), Unreadable::Short(5)));
        assert!(matches!(problem(&stamped(b"\xc1garbage")), Unreadable::Envelope(_)));
        assert!(matches!(problem(&stamped(b"")), Unreadable::Envelope(_)));
        assert!(matches!(problem(&stamped(b"\x83\xa1v\x02\xa12\xa1a\xa14\xc4\x00")), Unreadable::Version(2)));
        assert!(matches!(problem(&stamped(b"\x82\xa12\xa1/\xa14\xc4\x00")), Unreadable::Topic(_)));
    }

    #[test]
    fn a_placeholder_shows_what_is_stored() {
        let job = placeholder(&full().topic, id(), &stamped(b"garbage"));
        assert_eq!((job.spec.body.data.as_slice(), job.due_at.as_millis()), (&b"garbage"[..], 1_795_176_246_000));
        assert_eq!(placeholder(&full().topic, id(), b"x").spec.body.data, b"x");
    }

    #[test]
    fn made_up_stored_jobs_are_read_or_shown_as_they_are() {
        let stored = stamped(&write(&full()).unwrap());
        let plain = stamped(&write(&JobSpec::new("acme/mail".parse().unwrap(), Payload::default())).unwrap());
        gristmill_fuzz::check("stored-job", &[&stored, &plain, b"", &[0; 16]], |input| {
            let topic = topic(&tenant(), input).unwrap();
            let job = read(&tenant(), id(), input);
            match &job {
                // A job that is stored again, for example when it moves, keeps its body. Only times beyond all bounds are cut.
                Ok(job) => {
                    let again = |job| read(&tenant(), id(), &write_stored(job).unwrap()).unwrap();
                    let (once, twice) = (again(job), again(&again(job)));
                    assert_eq!((&once.spec.body, &once), (&job.spec.body, &twice));
                }
                Err(_) => assert_eq!(show(&topic, id(), input).spec.topic, topic),
            }
            job.map(|job| (job.spec.options.priority, job.spec.options.unique.is_some()))
                .map_err(|error| error.to_string())
        });
    }
}

//! What a producer says about a job, and the job as a store holds it.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Unexpected, Visitor};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::names::{JobId, Name, TopicId};
use super::options::{AnsweredOptions, JobOptions};
use crate::json::object::{self, Object};
use crate::json::{self, at_most, json_and_stored};
use crate::time::Timestamp;

/// Bytes and the format they are in. Opaque to the host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Payload {
    /// The bytes, which the host never looks into.
    pub data: Vec<u8>,
    /// A media type such as `application/json`; none means opaque octets.
    pub content_type: Option<String>,
}

impl Payload {
    /// The bytes as a text that people can read: UTF-8 without control characters besides tabs and ends of lines. With others it would take
    /// six times the room in JSON.
    pub fn as_text(&self) -> Option<&str> {
        let is_control = |byte: &u8| *byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r');
        std::str::from_utf8(&self.data).ok().filter(|text| !text.as_bytes().iter().any(is_control))
    }
}

json::schema!(named Payload: {
    "type": "object",
    "description": "Bytes and their media type. An answer has `text` if they are one, else `base64`; a request may have either.",
    "properties": {
        "text": { "type": "string", "description": "UTF-8." },
        "base64": { "type": "string", "contentEncoding": "base64", "format": "byte", "description": "Any bytes." },
        "content_type": { "type": ["string", "null"], "description": "A media type such as `application/json`." }
    },
    "additionalProperties": false,
    "oneOf": [{ "required": ["text"] }, { "required": ["base64"] }]
});

/// [`Payload`] in JSON: what can be read as text is written as it is, and other bytes in base64.
struct JsonPayload;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PayloadFields {
    text: Option<String>,
    base64: Option<Base64Bytes>,
    content_type: Option<String>,
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Base64Bytes(#[serde(with = "json::Base64")] Vec<u8>);

impl JsonPayload {
    fn serialize<S: Serializer>(payload: &Payload, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct InBase64<'a>(#[serde(with = "json::Base64")] &'a [u8]);
        let mut fields = to.serialize_struct("Payload", 2)?;
        match payload.as_text() {
            Some(text) => fields.serialize_field("text", text)?,
            None => fields.serialize_field("base64", &InBase64(&payload.data))?,
        }
        fields.serialize_field("content_type", &payload.content_type)?;
        fields.end()
    }

    fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Payload, D::Error> {
        let PayloadFields { text, base64, content_type } = PayloadFields::deserialize(from)?;
        let data = match (text, base64) {
            (Some(text), None) => text.into_bytes(),
            (None, Some(Base64Bytes(bytes))) => bytes,
            (Some(_), Some(_)) => {
                return Err(D::Error::custom("`text` and `base64` are two payloads: leave one of them out"));
            }
            (None, None) => return Err(D::Error::custom("a payload has `text` or `base64`")),
        };
        Ok(Payload { data, content_type })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Payload")]
struct StoredPayload {
    #[serde(with = "serde_bytes")]
    data: Vec<u8>,
    content_type: Option<String>,
}

json_and_stored!(Payload, JsonPayload, StoredPayload);

/// Bytes that each pair of metadata counts at least, so that a million empty pairs are not free.
const PAIR_BYTES: usize = 4;

/// The most pairs of a job's metadata: more have more than [`HEADER_BYTES`](crate::admission::HEADER_BYTES).
pub const PAIRS: usize = (64 << 10) / PAIR_BYTES;

/// What a producer says about a job. Once pushed, nothing of it changes but the priority: see [`JobChange`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct JobSpec {
    /// Unique in its tenant.
    pub id: JobId,
    /// Where the job is pushed to.
    #[serde(flatten)]
    pub topic: TopicId,
    /// What the handler gets.
    #[schemars(default)]
    pub body: Payload,
    /// Headers in order; names may repeat.
    #[schemars(default, length(max = PAIRS))]
    pub metadata: Vec<(String, String)>,
    /// All else.
    #[serde(flatten, serialize_with = "AnsweredOptions::serialize")]
    #[schemars(with = "AnsweredOptions")]
    pub options: JobOptions,
}

with_job_options! {
/// [`JobSpec`] with each field apart. Serde first keeps whole what it flattens, whatever it is and however long.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SpecFields {
    id: JobId,
    tenant: Name,
    topic: Name,
    #[serde(default, deserialize_with = "object::one")]
    body: Payload,
    #[serde(default, deserialize_with = "at_most::list::<PAIRS, _, _>")]
    metadata: Vec<(String, String)>,
}
}

impl<'de> Deserialize<'de> for JobSpec {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let Object(mut fields) = Object::<SpecFields>::deserialize(from)?;
        let mut options = JobOptions::default();
        fields.swap_options(&mut options);
        let SpecFields { id, tenant, topic, body, metadata, .. } = fields;
        Ok(Self { id, topic: TopicId { tenant, topic }, body, metadata, options })
    }
}

impl JobSpec {
    /// A job of `topic` with a fresh id and nothing but a body.
    pub fn new(topic: TopicId, body: Payload) -> Self {
        Self { id: JobId::generate(), topic, body, metadata: Vec::new(), options: JobOptions::default() }
    }

    /// The key whose other jobs this one waits for; `None` if there is none.
    pub fn shared_key(&self) -> Option<&str> {
        self.options.key.as_deref().filter(|key| !key.is_empty())
    }

    /// What the job's metadata and its other texts count against the limit of
    /// [`HEADER_BYTES`](crate::admission::HEADER_BYTES).
    pub fn header_bytes(&self) -> u64 {
        let texts = self.body.content_type.as_ref().map_or(0, String::len) + self.options.text_bytes();
        let pairs = self.metadata.iter().map(|(name, value)| (name.len() + value.len()).max(PAIR_BYTES)).sum::<usize>();
        (texts + pairs) as u64
    }
}

/// Which of a topic's ready jobs come first. Among equals the one that became ready first.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::Display,
    strum::EnumString,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Priority {
    /// Before all others.
    High,
    /// What a job has if its producer does not say otherwise.
    #[default]
    Normal,
    /// After all others.
    Low,
}

impl Priority {
    /// From the first to the last.
    pub const ALL: [Self; 3] = [Self::High, Self::Normal, Self::Low];

    /// Whose turn it is while high or low jobs are ready: of eight jobs taken, five go to high, two to normal, one to low,
    /// so that none starves. If no job of that priority is ready, the highest that is ready is taken.
    ///
    /// Each topic counts its turns in the store. The count goes on by one for each job that a claim takes from a topic
    /// that had ready jobs of high or low priority when the claim began; with normal jobs alone there is nothing to count.
    pub const TURNS: [Self; 8] = {
        use Priority::{High, Low, Normal};
        [High, Normal, High, High, Normal, High, High, Low]
    };

    /// Whose job is taken at a turn: the priority's whose turn it is; if none of it waits, the highest that waits.
    pub fn at_turn(turn: usize, mut waits: impl FnMut(Self) -> bool) -> Option<Self> {
        let whose = Self::TURNS.get(turn % Self::TURNS.len()).copied().unwrap_or_default();
        [whose].into_iter().chain(Self::ALL).find(|priority| waits(*priority))
    }

    /// The name, in kebab case.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The priority of this name; `None` if there is none.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

/// When a job becomes due, by the store's clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Due {
    /// At once.
    #[default]
    Now,
    /// This long after the store has accepted it.
    #[serde(rename = "after_ms", with = "json::WaitMs")]
    After(Duration),
    /// At this time, by the store's clock.
    #[serde(rename = "at_ms")]
    At(Timestamp),
}

/// [`Due`] where it is an object.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DueObject {
    #[serde(rename = "after_ms", default, with = "json::OptionalWaitMs")]
    after: Option<Duration>,
    #[serde(rename = "at_ms")]
    at: Option<Timestamp>,
}

const DUE: &str = "`now`, or an object with either `after_ms` or `at_ms`";

impl Due {
    /// For a field that may be null. To serde, what is none of the variants is no JSON.
    ///
    /// # Errors
    /// It is neither null nor one of the forms.
    pub fn maybe<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Self>, D::Error> {
        struct Form;
        impl<'de> Visitor<'de> for Form {
            type Value = Option<Due>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(DUE)
            }

            fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
                Ok(None)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                if text == "now" { Ok(Some(Due::Now)) } else { Err(E::invalid_value(Unexpected::Str(text), &DUE)) }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                match DueObject::deserialize(MapAccessDeserializer::new(map))? {
                    DueObject { after: Some(after), at: None } => Ok(Some(Due::After(after))),
                    DueObject { after: None, at: Some(at) } => Ok(Some(Due::At(at))),
                    _ => Err(A::Error::invalid_value(Unexpected::Map, &DUE)),
                }
            }
        }
        from.deserialize_any(Form)
    }
}

/// What is to be different about a job that waits. What it does not name stays as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobChange {
    /// When the job becomes due.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "Due::maybe")]
    pub due: Option<Due>,
    /// Its priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
}

/// A job on its way into the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewJob {
    /// What is to be done.
    pub spec: JobSpec,
    /// When.
    #[serde(default)]
    pub due: Due,
}

/// A job as the store holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Job {
    /// What is to be done.
    pub spec: JobSpec,
    /// When the store accepted it, in milliseconds since 1970.
    #[serde(rename = "enqueued_at_ms")]
    pub enqueued_at: Timestamp,
    /// When the job first became due, or was to become due by the last [`JobChange`]; equals `enqueued_at` for an immediate one.
    #[serde(rename = "due_at_ms")]
    pub due_at: Timestamp,
}

impl Job {
    /// From then on the job must not start any more.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.spec.options.ttl.map(|ttl| self.due_at.plus(ttl))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_in_json_is_as_the_http_api_documents_it() {
        let text = r#"{"spec":{"id":"j","tenant":"acme","topic":"mail","body":{"text":"hi","content_type":null},"metadata":[["k","v"]],"key":null,"priority":"low","unique":{"value":"u","window_ms":2},"attempts_max":3,"ttl_ms":null,"keep_result_ms":60000},"due":{"after_ms":5}}"#;
        let job: NewJob = serde_json::from_str(text).unwrap();
        assert_eq!((&*job.spec.body.data, job.due), (&b"hi"[..], Due::After(Duration::from_millis(5))));
        assert_eq!(serde_json::to_string(&job).unwrap(), text);
        let least: NewJob = serde_json::from_str(r#"{"spec":{"id":"j","tenant":"acme","topic":"mail"}}"#).unwrap();
        assert_eq!((least.due, least.spec.body), (Due::Now, Payload::default()));
    }

    #[test]
    fn a_change_names_one_time_or_none() {
        let due =
            |due: &str| serde_json::from_str::<JobChange>(&format!(r#"{{"due":{due}}}"#)).map(|change| change.due);
        assert_eq!(due("null").unwrap(), None);
        assert_eq!(due(r#""now""#).unwrap(), Some(Due::Now));
        assert_eq!(due(r#"{"after_ms":5}"#).unwrap(), Some(Due::After(Duration::from_millis(5))));
        assert_eq!(due(r#"{"at_ms":5}"#).unwrap(), Some(Due::At(Timestamp::from_millis(5))));
        for wrong in ["{}", "5", "true", "[]", r#""after_ms""#, r#"{"after_ms":5,"at_ms":5}"#, r#"{"in_ms":5}"#] {
            let error = due(wrong).unwrap_err();
            assert!(error.is_data(), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_payload_in_json_is_text_where_it_is_one() {
        let forms: [(&[u8], &str); 5] = [
            (b"{\"n\":1}\n", r#"{"text":"{\"n\":1}\n","content_type":null}"#),
            ("gr\u{fc}n".as_bytes(), "{\"text\":\"gr\u{fc}n\",\"content_type\":null}"),
            (b"", r#"{"text":"","content_type":null}"#),
            (b"\xff\xd8", r#"{"base64":"/9g=","content_type":null}"#),
            (b"\x01", r#"{"base64":"AQ==","content_type":null}"#),
        ];
        for (bytes, written) in forms {
            let payload = Payload { data: bytes.to_vec(), content_type: None };
            assert_eq!(serde_json::to_string(&payload).unwrap(), written);
            assert_eq!(serde_json::from_str::<Payload>(written).unwrap(), payload);
        }
    }

    #[test]
    fn a_job_in_json_is_an_object_without_unknown_fields() {
        let read = |more: &str| {
            serde_json::from_str::<JobSpec>(&format!(r#"{{"id":"j","tenant":"acme","topic":"mail"{more}}}"#))
        };
        assert!(read("").is_ok());
        for wrong in [
            r#","prio":1"#,
            r#","id":"k""#,
            r#","topic":"k""#,
            r#","body":["aGk=",null]"#,
            r#","body":{"base64":"aGk=","x":1}"#,
            r#","body":{"base64":"aGk=","text":"hi"}"#,
            r#","body":{"content_type":"text/plain"}"#,
            r#","unique":["u",1]"#,
            r#","unique":{"value":"u","x":1}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(serde_json::from_str::<JobSpec>(r#"["j","acme","mail"]"#).is_err());
    }
}

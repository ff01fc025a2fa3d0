//! Jobs as people write them: `{"body": {"to": "ada"}, "delay_ms": 5000}`.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use url::form_urlencoded;

use super::{BATCH, Base64, JobView};
use crate::wrong_document::{read, sentence};
use gristmill_core::admission::LATEST;
use gristmill_core::job::{Due, JobId, JobOptions, JobSpec, Name, NewJob, PAIRS, Payload, TopicId};
use gristmill_core::json::{self, at_most, is_default};
use gristmill_core::time::Timestamp;
use gristmill_core::with_job_options;

const JSON: &str = "application/json";
/// Fields of a document that the body and the path of another request stand for.
const NOT_IN_QUERY: [&str; 7] = ["body", "body_text", "body_base64", "content_type", "metadata", "tenant", "topic"];

with_job_options! {
/// A job to push.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PushJob", extend("allOf" = [
    {"not": {"required": ["body", "body_base64"]}}, {"not": {"required": ["body", "body_text"]}},
    {"not": {"required": ["body_text", "body_base64"]}}, {"not": {"required": ["delay_ms", "at_ms"]}},
]))]
pub(crate) struct Job {
    /// Where the path names no topic: the job's. It is needed there.
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<Name>,
    /// Where the path names no tenant: the job's. `default` if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<Name>,
    /// Any JSON, kept as it is written, to the last digit of a number. Its media type is `application/json` unless
    /// `content_type` says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "written")]
    #[schemars(with = "Value")]
    body: Option<Box<RawValue>>,
    /// A text.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_text: Option<String>,
    /// Any bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<Base64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    /// For the handler. Names may repeat.
    #[serde(default, deserialize_with = "at_most::pairs::<PAIRS, _>")]
    #[serde(skip_serializing_if = "is_default", serialize_with = "as_object")]
    #[schemars(with = "BTreeMap<String, String>", extend("maxProperties" = PAIRS))]
    metadata: Vec<(String, String)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<JobId>,
    /// Due after this wait, by the store's clock.
    #[serde(rename = "delay_ms", default, skip_serializing_if = "is_default", with = "json::OptionalWaitMs")]
    delay: Option<Duration>,
    /// Due then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = LATEST.as_millis()))]
    at_ms: Option<Timestamp>,
}
}

/// Jobs to push.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PushJobs")]
pub(crate) struct Bulk {
    #[serde(deserialize_with = "at_most::objects::<BATCH, _, _>")]
    #[schemars(length(max = BATCH))]
    pub(crate) jobs: Vec<Job>,
}

/// The same as a list alone.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub(crate) struct List(
    #[serde(deserialize_with = "at_most::objects::<BATCH, _, _>")]
    #[schemars(length(max = BATCH))]
    pub(crate) Vec<Job>,
);

/// Distinguishes one job from many.
#[derive(Debug, Deserialize)]
pub(crate) struct Probe {
    pub(crate) jobs: Option<de::IgnoredAny>,
}

/// What became of one job of a push.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Accepted {
    /// The job that stands for this push: of a `duplicate`, the one that holds the unique value.
    pub(crate) id: JobId,
    pub(crate) status: Status,
    /// Why a job of a list is not stored: it cannot wait for a job that it names. The answer to a push of a single job is 400 instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
    /// The job and its end, as far as they are known. With `wait_ms` only. Of a job that another request stored, a token without the scope
    /// `read` gets the id and the name of the state, and nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<JobView>,
    /// About the job's topic, if it is unknown: its jobs wait until something makes it a topic. Left out of lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Status {
    Stored,
    Exists,
    Duplicate,
    /// Not stored: `problem` says why.
    Refused,
}

/// What became of each job, in the order of the request.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AcceptedAll {
    pub(crate) jobs: Vec<Accepted>,
    /// One for each unknown topic. Left out if there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
}

/// What became of the jobs of a push.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
#[serde(untagged)]
pub(crate) enum Answered {
    One(Box<Accepted>),
    Many(AcceptedAll),
}

/// `?wait_ms=`, and nothing else.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Waiting {
    /// How long to wait for the end of the job; then it is answered as it is.
    #[serde(default)]
    #[schemars(with = "u64", range(max = 60_000))]
    pub(crate) wait_ms: WaitMs,
}

/// How long an answer may be put off: up to a minute.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(try_from = "u64")]
pub(crate) struct WaitMs(u64);

impl TryFrom<u64> for WaitMs {
    type Error = &'static str;

    fn try_from(ms: u64) -> Result<Self, Self::Error> {
        if ms <= 60_000 { Ok(Self(ms)) } else { Err("a wait is at most 60000 ms: ask again after it") }
    }
}

impl WaitMs {
    /// None: do not wait.
    pub(crate) fn patience(self) -> Option<Duration> {
        (self.0 > 0).then(|| Duration::from_millis(self.0))
    }
}

fn text(error: serde_json::Error) -> String {
    sentence(&error.to_string())
}

/// Reads a job as a push over HTTP has it, such as `{"body": {"to": "ada"}, "delay_ms": 5000}`. It gets a new id if it has none.
///
/// # Errors
/// In words: what is wrong with the document, and where.
pub fn new_job(document: &str, topic: &TopicId) -> Result<NewJob, String> {
    read::<Job>(document.as_bytes()).map_err(|wrong| wrong.to_string())?.into_new(topic.clone())
}

/// The document of a new job like this one, for a person to edit: its body is JSON or text if it is one. It has no id, no topic and no time.
///
/// # Errors
/// The job cannot be written.
pub fn edited_form(spec: &JobSpec) -> serde_json::Result<String> {
    let JobSpec { body: Payload { data, content_type }, metadata, mut options, .. } = spec.clone();
    let is_json = content_type.as_deref().is_some_and(|media| media == JSON || media.ends_with("+json"));
    let text = String::from_utf8(data);
    let body = text.as_ref().ok().filter(|_| is_json).and_then(|text| RawValue::from_string(text.clone()).ok());
    let mut job = Job { body, metadata, ..Job::default() };
    match text {
        _ if job.body.is_some() => {}
        Ok(text) => job.body_text = Some(text),
        Err(bytes) => job.body_base64 = Some(Base64(bytes.into_bytes())),
    }
    job.content_type = content_type.filter(|media| job.body.is_none() || media != JSON);
    job.swap_options(&mut options);
    Ok(serde_json::to_string_pretty(&job)? + "\n")
}

/// Also `null`, which is a body like any other.
fn written<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(from).map(Some)
}

/// Pairs as an object, in their order.
fn as_object<S: Serializer>(pairs: &[(String, String)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}

impl Job {
    /// The document of a job, without its id and its unique value unless `is_named`.
    pub(crate) fn of(NewJob { spec, due }: &NewJob, is_named: bool) -> Self {
        let JobSpec { id, body: Payload { data, content_type }, metadata, mut options, .. } = spec.clone();
        options.unique = options.unique.filter(|_| is_named);
        let (delay, at_ms) = match *due {
            Due::Now => (None, None),
            Due::After(delay) => (Some(delay), None),
            Due::At(at) => (None, Some(at)),
        };
        let id = is_named.then_some(id);
        let mut job =
            Self { body_base64: Some(Base64(data)), content_type, metadata, id, delay, at_ms, ..Self::default() };
        job.swap_options(&mut options);
        job
    }

    /// The document of a job for a path that names no topic.
    pub(crate) fn addressed(job: &NewJob) -> Self {
        let TopicId { tenant, topic } = job.spec.topic.clone();
        Self { topic: Some(topic), tenant: Some(tenant), ..Self::of(job, true) }
    }

    /// The job whose body is `data`. Its options are in the query, under the names that a document has for them; `unique`
    /// is the value, and `unique_window_ms` its window.
    ///
    /// # Errors
    /// In words: which option is wrong.
    pub(crate) fn of_bytes(data: Vec<u8>, media: String, query: &str) -> Result<(Self, WaitMs), String> {
        let mut options = Map::new();
        for (name, text) in form_urlencoded::parse(query.as_bytes()) {
            // Else values that differ would become the same.
            if text.contains(char::REPLACEMENT_CHARACTER) {
                return Err(format!(
                    "`{name}` is not UTF-8: encode its characters as UTF-8, and their bytes as `%C3%BC`"
                ));
            }
            let is_number = name.ends_with("_ms") || name == "attempts_max";
            let value = if is_number {
                text.parse::<u64>().map_err(|_| format!("`{name}` is no whole number: `{text}`"))?.into()
            } else if name == "after" {
                text.split(',').map(Value::from).collect()
            } else if name == "open" {
                text.parse::<bool>().map_err(|_| format!("`open` is `true` or `false`, not `{text}`"))?.into()
            } else {
                Value::from(text)
            };
            if NOT_IN_QUERY.contains(&&*name) {
                return Err(format!("`{name}`: the request's body is the job's, and its path names the topic"));
            }
            if options.insert(name.to_string(), value).is_some() {
                return Err(format!("`{name}` is given twice"));
            }
        }
        let wait_ms = options.remove("wait_ms").map(serde_json::from_value).transpose().map_err(text)?;
        match (options.remove("unique"), options.remove("unique_window_ms")) {
            (None, None) => {}
            (None, Some(_)) => return Err("`unique_window_ms` says nothing without `unique`".into()),
            (Some(value), window) => {
                options.insert("unique".into(), json!({ "value": value, "window_ms": window }));
            }
        }
        let job: Self = serde_json::from_value(options.into()).map_err(text)?;
        let job = Self { body_base64: Some(Base64(data)), content_type: Some(media), ..job };
        Ok((job, wait_ms.unwrap_or_default()))
    }

    pub(crate) const fn has_id(&self) -> bool {
        self.id.is_some()
    }

    /// The job, for the topic that it names. `tenant` is meant where it names none.
    ///
    /// # Errors
    /// In words: what is missing, or does not go together.
    pub(crate) fn into_addressed(mut self, tenant: &Name) -> Result<NewJob, String> {
        let topic = self.topic.take().ok_or("`topic` is missing")?;
        let tenant = self.tenant.take().unwrap_or_else(|| tenant.clone());
        self.into_new(TopicId { tenant, topic })
    }

    /// # Errors
    /// In words: what does not go together.
    pub(crate) fn into_new(mut self, topic: TopicId) -> Result<NewJob, String> {
        let mut options = JobOptions::default();
        self.swap_options(&mut options);
        if self.topic.is_some() || self.tenant.is_some() {
            return Err("`topic` and `tenant` are said already: leave them out".into());
        }
        let (data, content_type) = match (self.body, self.body_text, self.body_base64) {
            (Some(written), None, None) => {
                let content_type = self.content_type.or_else(|| Some(JSON.into()));
                (Box::<str>::from(written).into_string().into_bytes(), content_type)
            }
            (None, Some(text), None) => (text.into_bytes(), self.content_type),
            (None, None, bytes) => (bytes.map(|Base64(bytes)| bytes).unwrap_or_default(), self.content_type),
            _ => return Err("`body`, `body_text` and `body_base64` are different bodies: say one of them".into()),
        };
        let body = Payload { data, content_type };
        let due = match (self.delay, self.at_ms) {
            (None, None) => Due::Now,
            (Some(delay), None) => Due::After(delay),
            (None, Some(at)) => Due::At(at),
            (Some(_), Some(_)) => return Err("`delay_ms` and `at_ms` are two times: leave one of them out".into()),
        };
        let id = self.id.unwrap_or_else(JobId::generate);
        Ok(NewJob { spec: JobSpec { id, topic, body, metadata: self.metadata, options }, due })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a command sends to a server reads as the same job.
    fn check(job: Result<NewJob, String>) -> Result<(bool, bool), String> {
        let job = job?;
        let sent: Job = read(&serde_json::to_vec(&Job::addressed(&job)).unwrap()).unwrap();
        assert_eq!(sent.into_addressed(&"other".parse().unwrap()), Ok(job.clone()));
        Ok((job.due == Due::Now, job.spec.options.unique.is_some()))
    }

    #[test]
    fn made_up_documents_are_refused_or_become_jobs() {
        let whole = br#"{"body": {"to": [1.50, "ada"]}, "unique": {"value": "u", "window_ms": 5}, "metadata": {"a": "b", "a": "c"},
            "id": "j1", "delay_ms": 5000, "priority": "low", "attempts_max": 3, "ttl_ms": 9, "keep_result_ms": 1, "key": "k",
            "after": ["a"], "after_failed": "run", "batch": "b", "open": true}"#;
        let known: [&[u8]; 4] = [
            whole,
            br#"{"body_base64": "AAEC", "content_type": "a/b", "at_ms": 1795176246000}"#,
            br#"{"body_text": "hi", "unique": "u"}"#,
            b"{}",
        ];
        gristmill_fuzz::check("push-document", &known, |input| {
            check(new_job(&String::from_utf8_lossy(input), &"acme/mail".parse().unwrap()))
        });
    }

    #[test]
    fn a_unique_value_may_be_a_text() {
        let job = |unique: &str| new_job(&format!(r#"{{"unique": {unique}}}"#), &"mail".parse().unwrap());
        let unique = |text: &str| job(text).map(|job| job.spec.options.unique);
        assert_eq!(unique(r#""u2""#), unique(r#"{"value": "u2"}"#));
        assert_eq!(unique("null"), Ok(None));
        for wrong in ["2", "[\"u2\", 1]"] {
            assert!(unique(wrong).unwrap_err().starts_with("unique: expected a text, or an object"), "{wrong}");
        }
    }

    #[test]
    fn an_option_in_another_encoding_is_refused_and_not_made_the_same_as_others() {
        let unique = |query: &str| {
            Job::of_bytes(Vec::new(), "a/b".into(), query).map(|(job, _)| job.into_new("mail".parse().unwrap()))
        };
        assert_eq!(unique("unique=M%C3%BCller").unwrap().unwrap().spec.options.unique.unwrap().value, "M\u{fc}ller");
        for latin_1 in ["unique=M%FCller", "key=M%F6ller"] {
            assert!(unique(latin_1).unwrap_err().contains("is not UTF-8"), "{latin_1}");
        }
    }

    #[test]
    fn made_up_queries_are_refused_or_become_jobs() {
        let known: [&[u8]; 3] = [
            b"delay_ms=5000&priority=low&key=k&wait_ms=60000",
            b"unique=u&unique_window_ms=5&ttl_ms=9",
            b"id=%6a1&at_ms=1&attempts_max=3&after=a,b&open=true",
        ];
        gristmill_fuzz::check("push-query", &known, |input| {
            let job = Job::of_bytes(input.to_vec(), "a/b".into(), &String::from_utf8_lossy(input));
            let new = job.and_then(|(job, _)| job.into_new("acme/mail".parse().unwrap()));
            assert!(new.as_ref().map_or(true, |new| new.spec.body.data == input));
            check(new)
        });
    }
}

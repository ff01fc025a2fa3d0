//! New jobs of a request: held to the rules of their topics and to what their tenants may store.

use std::collections::BTreeMap;

use crate::limits::{Added, Full};
use crate::problem::{COME_AGAIN, Code, Problem};
use crate::state::AppState;
use gristmill_core::admission::Refused;
use gristmill_core::job::{Name, NewJob, TopicId};
use gristmill_core::units::counted;
use gristmill_store::{STEP_BYTES, is_one_step};

/// Unknown topics of a request for which a similar one is sought.
const HINTED: usize = 10;

/// Jobs as they are stored.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) jobs: Vec<NewJob>,
    /// One for each topic that is unknown.
    pub(crate) warnings: Vec<String>,
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        let code = match refused {
            Refused::Body { .. } | Refused::BodyOfTenant { .. } => Code::TooLarge,
            Refused::UnknownTopic(_) => Code::TopicUnknown,
            Refused::Headers { .. }
            | Refused::Attempts { .. }
            | Refused::Span { .. }
            | Refused::SpanOfTenant { .. }
            | Refused::Due { .. }
            | Refused::Seconds { .. }
            | Refused::Ttl
            | Refused::Empty { .. }
            | Refused::MediaType
            | Refused::After { .. }
            | Refused::Reserved { .. } => Code::BadRequest,
        };
        Self::new(code, refused.to_string())
    }
}

/// How a refusal names a job of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum JobLabel {
    /// Not at all: it is the only one.
    Alone,
    /// By its index.
    Listed,
    /// By its line; the lines of all.
    Lines(Vec<usize>),
}

impl JobLabel {
    /// What the refusal of the job with this index begins with.
    pub(crate) fn of(&self, index: usize) -> String {
        match self {
            Self::Alone => String::new(),
            Self::Listed => format!("jobs[{index}]: "),
            Self::Lines(numbers) => format!("line {}: ", numbers.get(index).copied().unwrap_or_default()),
        }
    }
}

impl AppState {
    /// Holds new jobs to the rules of their topics and to the number of jobs and topics that their tenants may store. Every route that
    /// pushes calls it first. The runner looks after their tenants from now on, so that delayed jobs become due in time.
    /// `label` names a job for the text of a refusal.
    ///
    /// # Errors
    /// What [`KnownTopics::admit`](gristmill_config::KnownTopics::admit) refuses, `too-many-jobs`, `too-many-bytes` or `too-many-topics`. Nothing is counted for
    /// tenants that come after the one that is full.
    pub(crate) async fn admit(&self, jobs: Vec<NewJob>, label: &JobLabel) -> Result<Admitted, Problem> {
        let topics = self.topics();
        let (mut admitted, mut unknown) = (Vec::with_capacity(jobs.len()), BTreeMap::<TopicId, String>::new());
        let mut more: BTreeMap<Name, Added> = BTreeMap::new();
        for (index, job) in jobs.into_iter().enumerate() {
            let is_hinted = unknown.len() < HINTED && !unknown.contains_key(&job.spec.topic);
            let known = topics.known_topics();
            let admitting = if is_hinted { known.admit(job) } else { known.admit_without_hint(job) };
            let (job, warning) = admitting.map_err(|refused| {
                let problem = Problem::from(refused);
                Problem { detail: label.of(index) + &problem.detail, ..problem }
            })?;
            let more = more.entry(job.spec.topic.tenant.clone()).or_default();
            more.add(&job);
            more.topics.extend(warning.as_ref().map(|unknown| unknown.topic.topic.clone()));
            if let Some(warning) = warning {
                unknown.entry(warning.topic.clone()).or_insert_with(|| warning.to_string());
            }
            admitted.push(job);
        }
        for (tenant, more) in more {
            self.reserve(&tenant, more).await?;
        }
        Ok(Admitted { jobs: admitted, warnings: unknown.into_values().collect() })
    }

    /// [`AppState::admit`] for jobs of one topic that are stored all or none.
    ///
    /// # Errors
    /// Those of [`AppState::admit`], and `too-large`: the jobs take more than one step of the store.
    pub(crate) async fn admit_whole(&self, jobs: Vec<NewJob>, label: &JobLabel) -> Result<Admitted, Problem> {
        if !is_one_step(&jobs) {
            let detail = format!(
                "the jobs of a request are stored all or none, so they have at most {STEP_BYTES} bytes together, metadata \
                 counted twice: send them in several requests"
            );
            return Err(Problem::new(Code::TooLarge, detail));
        }
        self.admit(jobs, label).await
    }

    /// Counts what of the tenant will be stored.
    ///
    /// # Errors
    /// `too-many-jobs`, `too-many-bytes` or `too-many-topics`: the tenant may not store so much.
    pub(crate) async fn reserve(&self, tenant: &Name, more: Added) -> Result<(), Problem> {
        self.tenants.note(tenant);
        let topics = self.topics();
        let limits = topics.limits(tenant);
        let is_known = |topic: &TopicId| topics.known_topics().is_known(topic);
        let (code, detail) = match self.storage.let_in(&*self.store, tenant, more, &limits, is_known).await? {
            None => return Ok(()),
            Some(Full::Jobs(most)) => {
                let jobs = counted(most, "job", "jobs");
                let detail = format!(
                    "tenant `{tenant}` may have {jobs} in the store, dead ones included: see `stored-jobs` in its \
                     `limits`"
                );
                (Code::TooManyJobs, detail)
            }
            Some(Full::Bytes(most)) => {
                let what = "dead jobs, kept results and unique values count, too";
                let detail = match limits.stored_bytes {
                    Some(_) => format!(
                        "tenant `{tenant}` may have {most} bytes in the store: see `stored-bytes` in its `limits`; {what}"
                    ),
                    None => format!(
                        "the store's disk or memory has no room for more of tenant `{tenant}`, which may have half of it, {most} \
                         bytes now: make room there, or set `stored-bytes` in its `limits`; {what}"
                    ),
                };
                (Code::TooManyBytes, detail)
            }
            Some(Full::Topics(most)) => {
                let topics = counted(most, "topic", "topics");
                let detail = format!(
                    "tenant `{tenant}` may have {topics} beside those of the manifest and of components: see \
                     `topics` in its `limits`; `gristmill topics purge` removes one"
                );
                (Code::TooManyTopics, detail)
            }
        };
        Err(Problem::new(code, detail).retry_after(COME_AGAIN))
    }
}

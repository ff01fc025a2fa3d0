//! What a server remembers: recent attempts of its runner, the last minutes, and recordings of attempts.

use url::form_urlencoded::Serializer;

use super::exchange::Question;
use super::store::RemoteStore;
use crate::problem::Code;
use crate::wire;
use crate::wire::attempts::AttemptsSeen;
use crate::wire::history::History;
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_runner::RecentWanted;
use gristmill_store::StoreError;

impl RemoteStore {
    /// The attempts that the runner in the server's process has settled last. At most 1000.
    ///
    /// # Errors
    /// The server is unavailable, or refuses.
    pub async fn attempts(&self, wanted: &RecentWanted) -> Result<AttemptsSeen, StoreError> {
        let RecentWanted { tenant, topic, job, failed, limit } = wanted;
        let mut query = Serializer::new(String::new());
        query.append_pair("limit", &limit.to_string()).append_pair("failed", &failed.to_string());
        query.extend_pairs(topic.iter().map(|topic| ("topic", topic.as_str())));
        query.extend_pairs(job.iter().map(|job| ("job", job.as_str())));
        let path = format!("/v1/tenants/{tenant}/attempts?{}", query.finish());
        self.server.ask(Question::get(path, "read recent attempts")).await
    }

    /// What happened in the last minutes and days in a topic, or in all topics of the tenant together.
    ///
    /// # Errors
    /// The server is unavailable, or refuses.
    pub async fn history(&self, tenant: &Name, topic: Option<&Name>) -> Result<History, StoreError> {
        let topic = topic.map(|topic| format!("?topic={topic}")).unwrap_or_default();
        self.server.ask(Question::get(format!("/v1/tenants/{tenant}/history{topic}"), "read the history")).await
    }

    /// The recording of the job's last attempt that was recorded; `None` if none is kept, or the job is unknown.
    ///
    /// # Errors
    /// The server is unavailable, or refuses.
    pub async fn recording(&self, tenant: &Name, id: &JobId) -> Result<Option<Vec<u8>>, StoreError> {
        let path = format!("/v1/tenants/{tenant}/jobs/{id}/recording");
        let question = Question::get(path, "ask for the recording of a job");
        let found: Option<wire::JobRecording> = self.server.ask_about(question, &[Code::JobUnknown]).await?;
        Ok(found.and_then(|found| found.recording).map(|recording| recording.0))
    }

    /// The same of a job of this topic, without a look for it elsewhere.
    ///
    /// # Errors
    /// The server is unavailable, or refuses.
    pub async fn recording_in(&self, topic: &TopicId, id: &JobId) -> Result<Option<Vec<u8>>, StoreError> {
        let TopicId { tenant, topic } = topic;
        let path = format!("/v1/tenants/{tenant}/jobs/{id}/recording?topic={topic}");
        let found: wire::JobRecording = self.server.ask(Question::get(path, "ask for the recording of a job")).await?;
        Ok(found.recording.map(|recording| recording.0))
    }

    /// A page of the topic's jobs of which a recording is kept, the latest first, at most `limit` and never more than a thousand; `after` is what came with the page
    /// before. Returns what leads to the next page, if there may be one.
    ///
    /// # Errors
    /// The server is unavailable, or refuses.
    pub async fn recorded_jobs(
        &self,
        topic: &TopicId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<JobId>, Option<String>), StoreError> {
        let TopicId { tenant, topic } = topic;
        let mut query = Serializer::new(String::new());
        query.append_pair("limit", &limit.to_string()).extend_pairs(after.map(|after| ("after", after)));
        let path = format!("/v1/tenants/{tenant}/topics/{topic}/recordings?{}", query.finish());
        let page: wire::RecordedJobs = self.server.ask(Question::get(path, "list recordings")).await?;
        let jobs = page.jobs.into_iter().map(|job| job.id).collect();
        Ok((jobs, page.next.map(String::from)))
    }
}

//! [`RemoteStore`]: what commands do with a store, as requests to its server.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::anyhow;
use async_trait::async_trait;
use tokio::sync::mpsc;
use url::form_urlencoded;

use super::address::ServerAddress;
use super::exchange::{Question, Server};
use super::stream;
use crate::problem::Code;
use crate::serve::accept::HttpService;
use crate::wire::dead::Groups;
use crate::wire::push::{Bulk, Job};
use crate::wire::topic::{TopicSeen, TopicsSeen};
use crate::wire::worker::Workers;
use crate::wire::{self, BATCH};
use gristmill_core::job::{JobChange, JobId, Name, NewJob, Progress, TopicId};
use gristmill_core::time::Timestamp;
use gristmill_core::token::TokenText;
use gristmill_runner::why::{TopicWhy, Why};
use gristmill_store::{
    Cancelled, Control, Cursor, DeadGroups, DeadJobs, FoundJobs, Heartbeat, JobChanged, JobView, ListJobs, Page, Push,
    Pushed, Query, QueryCursor, ServerName, Signal, Signals, StateDeleted, StateFilter, States, StoreError, StoreId,
    TopicCounts, Uniques, VersionedState,
};

/// Bytes of bodies in one request, unless a single job is larger.
const PUSH_BYTES: usize = 4 << 20;

/// A store that another process owns, by way of that process. Clones are cheap.
///
/// No call waits longer than half a minute; none is repeated. Batches go in chunks of at most 1000.
#[derive(Debug, Clone)]
pub struct RemoteStore {
    pub(super) server: Server,
    store: Option<String>,
    name: Option<ServerName>,
}

impl RemoteStore {
    /// Asks the server at this address which store it has.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: no server answers. [`StoreError::Refused`]: another program answers, or a server that refuses requests without a
    /// token.
    pub async fn connect(address: SocketAddr) -> Result<Self, StoreError> {
        Self::connect_with(address, None).await
    }

    /// The same with a token.
    ///
    /// # Errors
    /// Those of [`Self::connect`].
    pub async fn connect_with(address: impl Into<ServerAddress>, token: Option<TokenText>) -> Result<Self, StoreError> {
        let address = address.into();
        let name = address.to_string();
        Self::of(Server { address, name, token, meant: None, inside: None }).await
    }

    /// That of a server in this process, which knows this token.
    pub(crate) async fn inside(inside: HttpService, token: TokenText) -> Result<Self, StoreError> {
        let address = ServerAddress::from(SocketAddr::from(([127, 0, 0, 1], 0)));
        let name = "this command".to_owned();
        Self::of(Server { address, name, token: Some(token), meant: None, inside: Some(Arc::new(inside)) }).await
    }

    async fn of(unknown: Server) -> Result<Self, StoreError> {
        let at = unknown.name.clone();
        let about: wire::About = unknown.ask(Question::get("/v1".into(), "say who it is")).await?;
        let name = match (&about.store, about.pid) {
            (Some(store), Some(pid)) => format!("{store} (process {pid} at {at})"),
            _ => at,
        };
        let known = about.store_id.map(StoreId::from).zip(about.instance);
        let known = known.map(|(store, instance)| ServerName { store, instance });
        let meant = known.as_ref().map(|known| known.store.clone());
        Ok(Self { server: Server { name, meant, ..unknown }, store: about.store, name: known })
    }

    /// The store's address, as its owner knows it. `None` if the server does not show it to this token.
    pub fn store(&self) -> Option<&str> {
        self.store.as_deref()
    }

    /// Which server answers, and of which store. `None` if it does not say so: it is of an earlier version. Every further request is refused by a
    /// server of another store.
    pub const fn name(&self) -> Option<&ServerName> {
        self.name.as_ref()
    }

    /// The tenants that the token may see: its own, or all that the server knows.
    ///
    /// # Errors
    /// The server is unavailable, or refuses.
    pub async fn visible_tenants(&self) -> Result<Vec<Name>, StoreError> {
        match self.own_tenant().await? {
            Some(tenant) => Ok(vec![tenant]),
            None => self.tenants().await,
        }
    }

    /// The tenant of the token; `None` if it is of all, or none is needed.
    ///
    /// # Errors
    /// The server is unavailable, or refuses.
    pub async fn own_tenant(&self) -> Result<Option<Name>, StoreError> {
        let me: wire::Me = self.server.ask(Question::get("/v1/me".into(), "ask what the token allows")).await?;
        Ok(me.tenant)
    }

    /// What only the clock of the store can say, which another one would answer wrongly.
    fn of_its_clock(&self, doing: &'static str) -> StoreError {
        let source = anyhow!("a server does not say what the clock of its store shows: ask it why a job waits instead");
        StoreError::Refused { store: self.server.name.clone(), doing, source }
    }

    /// An answer for each id, or none of them.
    fn complete<T>(&self, asked: usize, doing: &'static str, answers: Vec<T>) -> Result<Vec<T>, StoreError> {
        if answers.len() == asked {
            return Ok(answers);
        }
        let source = anyhow!("{} answers to {asked} questions", answers.len());
        Err(StoreError::Refused { store: self.server.name.clone(), doing, source })
    }

    /// Pushes jobs as [`Produce::push`](gristmill_store::Push::push) does, and says what the server warns of. The server admits them by its own rules.
    ///
    /// # Errors
    /// The server is unavailable, or refuses: of a chunk of jobs that it refuses none is stored.
    pub async fn push_with_warnings(&self, jobs: &[NewJob]) -> Result<(Vec<Pushed>, BTreeSet<String>), StoreError> {
        const DOING: &str = "push jobs";
        let (mut all, mut all_warnings) = (Vec::with_capacity(jobs.len()), BTreeSet::new());
        for chunk in chunks(jobs) {
            let push = Bulk { jobs: chunk.iter().map(Job::addressed).collect() };
            let question = Question::post("/v1/jobs".into(), &push, DOING);
            let wire::PushAnswer { pushed, warnings } = self.server.ask(question).await?;
            all.extend(self.complete(chunk.len(), DOING, pushed)?);
            all_warnings.extend(warnings);
        }
        Ok((all, all_warnings))
    }

    /// Why a job is not running, by what the server knows. `None` if the job is unknown.
    ///
    /// # Errors
    /// The server is unavailable, or refuses.
    pub async fn why(&self, tenant: &Name, id: &JobId) -> Result<Option<Why>, StoreError> {
        let path = format!("/v1/tenants/{tenant}/jobs/{id}/why");
        self.server.ask_about(Question::get(path, "ask why a job is not running"), &[Code::JobUnknown]).await
    }

    /// Why a topic begins no job, by what the server knows.
    ///
    /// # Errors
    /// The server is unavailable, or refuses.
    pub async fn topic_why(&self, topic: &TopicId) -> Result<TopicWhy, StoreError> {
        self.server.ask(Question::get(format!("{}/why", topic_path(topic)), "ask why a topic begins no job")).await
    }

    /// What [`workers`](crate::workers) does, by the server.
    ///
    /// # Errors
    /// The server is unavailable, or refuses: the token is not for all tenants, for instance.
    pub async fn workers(&self) -> Result<Workers, StoreError> {
        self.server.ask(Question::get("/v1/workers".into(), "list workers")).await
    }

    /// Which component does a topic's jobs there. `None`: the server knows no such topic.
    ///
    /// # Errors
    /// The server is unavailable, or refuses.
    pub async fn topic_serving(&self, topic: &TopicId) -> Result<Option<TopicSeen>, StoreError> {
        let question = Question::get(topic_path(topic), "ask which component does a topic's jobs");
        self.server.ask_about(question, &[Code::TopicUnknown]).await
    }

    /// Every topic of a tenant that the server knows, by name: also those that never held a job.
    ///
    /// # Errors
    /// The server is unavailable, or refuses.
    pub async fn topics(&self, tenant: &Name) -> Result<Vec<TopicSeen>, StoreError> {
        let question = Question::get(format!("/v1/tenants/{tenant}/topics"), "list topics");
        let TopicsSeen { topics } = self.server.ask(question).await?;
        Ok(topics)
    }

    /// What [`find`](gristmill_store::find) does, by the server: it reads the jobs where they are. `query` is its text.
    ///
    /// # Errors
    /// The server is unavailable, or refuses.
    pub async fn find(
        &self,
        tenant: &Name,
        query: &str,
        after: Option<&QueryCursor>,
        limit: usize,
    ) -> Result<FoundJobs, StoreError> {
        const DOING: &str = "find jobs";
        let limit = limit.min(BATCH).to_string();
        let path = searching(&format!("/v1/tenants/{tenant}/jobs"), &[("q", query), ("limit", &limit)], after);
        let wire::Listed { jobs, next, looked_at } = self.server.ask(Question::get(path, DOING)).await?;
        Ok(FoundJobs { jobs, looked_at: looked_at.unwrap_or_default(), next: self.cursor(next, DOING)? })
    }

    /// What [`dead_groups`](gristmill_store::dead_groups) does, by the server. `query` is its text.
    ///
    /// # Errors
    /// The server is unavailable, or refuses.
    pub async fn dead_groups(
        &self,
        tenant: &Name,
        query: &str,
        after: Option<&QueryCursor>,
    ) -> Result<DeadGroups, StoreError> {
        const DOING: &str = "group dead jobs";
        let path = searching(&format!("/v1/tenants/{tenant}/dead/groups"), &[("q", query)], after);
        let Groups { groups, looked_at, next } = self.server.ask(Question::get(path, DOING)).await?;
        Ok(DeadGroups { groups, looked_at, next: self.cursor(next, DOING)? })
    }

    /// Where a server says that a list goes on.
    fn cursor<C: FromStr<Err: std::error::Error + Send + Sync + 'static>>(
        &self,
        text: Option<String>,
        doing: &'static str,
    ) -> Result<Option<C>, StoreError> {
        let store = self.server.name.clone();
        let misread = |error| StoreError::Refused { store, doing, source: anyhow::Error::new(error) };
        text.map(|text| text.parse::<C>()).transpose().map_err(misread)
    }

    async fn were_dead(&self, path: &str, ids: &[JobId], doing: &'static str) -> Result<Vec<bool>, StoreError> {
        let mut all = Vec::with_capacity(ids.len());
        for chunk in ids.chunks(BATCH) {
            let question = Question::post(path.into(), &wire::Ids { ids: chunk.to_vec() }, doing);
            let wire::WereDead { were_dead } = self.server.ask(question).await?;
            all.extend(self.complete(chunk.len(), doing, were_dead)?);
        }
        Ok(all)
    }
}

/// The server also lists topics that it could serve, which a store does not know.
fn has_held_jobs(counts: &TopicCounts) -> bool {
    let TopicCounts { ready, delayed, running, dead, paused, totals, .. } = counts;
    *paused || !totals.is_empty() || [ready, delayed, running, dead].into_iter().any(|count| *count > 0)
}

/// A path with a query.
fn searching(path: &str, fields: &[(&str, &str)], after: Option<&QueryCursor>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(fields);
    if let Some(after) = after {
        query.append_pair("after", &after.to_string());
    }
    format!("{path}?{}", query.finish())
}

#[async_trait]
impl States for RemoteStore {
    async fn state(&self, topic: &TopicId, key: &str) -> Result<Option<VersionedState>, StoreError> {
        let question = Question::get(path_of(topic, "state", key), "read the state of a key");
        let wire::KeyState { state, version } = self.server.ask(question).await?;
        Ok(state.zip(version).map(|(wire::Base64(value), version)| VersionedState { value, version }))
    }

    async fn delete_state(&self, topic: &TopicId, key: &str, version: Option<u64>) -> Result<StateDeleted, StoreError> {
        const DOING: &str = "delete the state of a key";
        let question = Question::delete(path_of(topic, "state", key), DOING).if_version(version);
        match self.server.ask_if_known(question).await? {
            Ok(wire::Changed { changed: true }) => Ok(StateDeleted::Deleted),
            Ok(wire::Changed { changed: false }) => Ok(StateDeleted::Missing),
            Err(problem) if problem.code == Code::OtherVersion => Ok(StateDeleted::OtherVersion),
            Err(problem) => Err(self.server.refused(DOING, &problem)),
        }
    }
}

/// The path of a part of the topic with this name. The name may be any text.
pub(super) fn path_of(topic: &TopicId, what: &str, name: &str) -> String {
    let mut path = format!("{}/{what}/", topic_path(topic));
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            path.push(byte.into());
        } else {
            path.push_str(&format!("%{byte:02X}"));
        }
    }
    path
}

pub(super) fn topic_path(topic: &TopicId) -> String {
    format!("/v1/tenants/{}/topics/{}", topic.tenant, topic.topic)
}

/// Cuts a batch so that no request becomes too long.
fn chunks(jobs: &[NewJob]) -> impl Iterator<Item = &[NewJob]> {
    let (mut count, mut bytes) = (0, 0);
    jobs.chunk_by(move |job, next| {
        bytes += job.spec.body.data.len();
        count += 1;
        let fits = count < BATCH && bytes + next.spec.body.data.len() <= PUSH_BYTES;
        if !fits {
            (count, bytes) = (0, 0);
        }
        fits
    })
}

#[async_trait]
impl Push for RemoteStore {
    async fn push(&self, jobs: &[NewJob]) -> Result<Vec<Pushed>, StoreError> {
        self.push_with_warnings(jobs).await.map(|(pushed, _)| pushed)
    }
}

#[async_trait]
impl Signals for RemoteStore {
    async fn signals(&self, tenants: &[Name]) -> Result<mpsc::Receiver<Signal>, StoreError> {
        let tenants: Vec<_> = tenants.iter().map(Name::as_str).collect();
        let path = format!("/v1/signals?tenants={}", tenants.join(","));
        Ok(stream::receive(self.server.listen(Question::get(path, "listen for signals")).await?, stream::signal))
    }
}

#[async_trait]
impl Query for RemoteStore {
    async fn counts(&self, tenant: &Name) -> Result<Vec<TopicCounts>, StoreError> {
        let topics = self.topics(tenant).await?;
        Ok(topics.into_iter().map(|topic| topic.counts).filter(has_held_jobs).collect())
    }

    async fn job(&self, tenant: &Name, id: &JobId) -> Result<Option<JobView>, StoreError> {
        let view = self.look(tenant, id).await?;
        // The server also answers how a job ended. That is another question.
        let known = view.filter(|view| view.ended.is_none() || view.result.is_some());
        Ok(known.map(|view| JobView { ended: None, ..view }))
    }

    async fn ended(&self, tenant: &Name, id: &JobId) -> Result<Option<JobView>, StoreError> {
        let over = self.look(tenant, id).await?.filter(|view| view.ended.is_some());
        Ok(over.map(|view| JobView { result: None, ..view }))
    }

    async fn ended_jobs(&self, topic: &TopicId, limit: usize) -> Result<Vec<JobView>, StoreError> {
        const DOING: &str = "list jobs that ended";
        let path = format!("{}/jobs?q=state:finished&limit={}", topic_path(topic), limit.min(BATCH));
        let wire::Listed { jobs, .. } = self.server.ask(Question::get(path, DOING)).await?;
        Ok(jobs)
    }

    /// A job as the server shows it has its progress.
    async fn progress(&self, _: &Name, deliveries: &[(JobId, u64)]) -> Result<Vec<Option<Progress>>, StoreError> {
        Ok(vec![None; deliveries.len()])
    }

    /// A server looks them up on its own, for a query.
    async fn jobs_of_key(&self, _: &TopicId, _: &str, _: usize) -> Result<Option<Vec<JobId>>, StoreError> {
        Ok(None)
    }

    async fn unique_holder(&self, topic: &TopicId, value: &str) -> Result<Option<JobId>, StoreError> {
        Ok(self.unique_hold(topic, value).await?.map(|hold| hold.holder))
    }

    async fn jobs_ahead(&self, topic: &TopicId, id: &JobId) -> Result<Option<u64>, StoreError> {
        let why = self.why(&topic.tenant, id).await?;
        Ok(why.filter(|why| why.topic.as_ref() == Some(topic)).and_then(|why| why.ahead))
    }

    async fn tenants(&self) -> Result<Vec<Name>, StoreError> {
        let wire::Tenants { tenants } = self.server.ask(Question::get("/v1/tenants".into(), "list tenants")).await?;
        Ok(tenants)
    }

    async fn clock_time(&self, _: &Name) -> Result<Timestamp, StoreError> {
        Err(self.of_its_clock("read the clock of the store"))
    }

    async fn heartbeats(&self) -> Result<Vec<Heartbeat>, StoreError> {
        Err(self.of_its_clock("read the heartbeats of runners"))
    }
}

#[async_trait]
impl ListJobs for RemoteStore {
    async fn jobs(
        &self,
        topic: &TopicId,
        place: StateFilter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        const DOING: &str = "list jobs";
        let after = after.map_or_else(String::new, |after| format!("&after={after}"));
        let (state, limit) = (place.as_str(), limit.min(BATCH));
        let path = format!("{}/jobs?state={state}&limit={limit}{after}", topic_path(topic));
        let wire::Listed { jobs, next, .. } = self.server.ask(Question::get(path, DOING)).await?;
        Ok(Page { jobs, next: self.cursor(next, DOING)? })
    }
}

#[async_trait]
impl DeadJobs for RemoteStore {
    async fn respawn(&self, topic: &TopicId, ids: &[JobId]) -> Result<Vec<bool>, StoreError> {
        self.were_dead(&format!("{}/dead/respawn", topic_path(topic)), ids, "respawn dead jobs").await
    }

    async fn delete_dead(&self, topic: &TopicId, ids: &[JobId]) -> Result<Vec<bool>, StoreError> {
        self.were_dead(&format!("{}/dead/delete", topic_path(topic)), ids, "delete dead jobs").await
    }
}

impl RemoteStore {
    async fn look(&self, tenant: &Name, id: &JobId) -> Result<Option<JobView>, StoreError> {
        let question = Question::get(format!("/v1/tenants/{tenant}/jobs/{id}"), "look at a job");
        self.server.ask_about(question, &[Code::JobUnknown]).await
    }

    async fn end(&self, tenant: &Name, ids: &[JobId], kill: bool) -> Result<Vec<Cancelled>, StoreError> {
        const DOING: &str = "cancel jobs";
        let mut all = Vec::with_capacity(ids.len());
        for chunk in ids.chunks(BATCH) {
            let asked = wire::Cancel { ids: chunk.to_vec(), kill };
            let question = Question::post(format!("/v1/tenants/{tenant}/cancel"), &asked, DOING);
            let wire::CancelAnswer { cancelled } = self.server.ask(question).await?;
            all.extend(self.complete(chunk.len(), DOING, cancelled)?);
        }
        Ok(all)
    }
}

#[async_trait]
impl Control for RemoteStore {
    async fn cancel(&self, tenant: &Name, ids: &[JobId]) -> Result<Vec<Cancelled>, StoreError> {
        self.end(tenant, ids, false).await
    }

    async fn kill(&self, tenant: &Name, ids: &[JobId]) -> Result<Vec<Cancelled>, StoreError> {
        self.end(tenant, ids, true).await
    }

    async fn change(&self, tenant: &Name, ids: &[JobId], change: &JobChange) -> Result<Vec<JobChanged>, StoreError> {
        const DOING: &str = "change jobs";
        let JobChange { due, priority } = *change;
        let mut all = Vec::with_capacity(ids.len());
        for chunk in ids.chunks(BATCH) {
            let asked = wire::ChangeJobs { ids: chunk.to_vec(), due, priority };
            let question = Question::post(format!("/v1/tenants/{tenant}/change"), &asked, DOING);
            let wire::ChangeAnswer { changed } = self.server.ask(question).await?;
            all.extend(self.complete(chunk.len(), DOING, changed)?);
        }
        Ok(all)
    }

    async fn set_paused(&self, topic: &TopicId, paused: bool) -> Result<bool, StoreError> {
        let (verb, doing) = if paused { ("pause", "pause a topic") } else { ("resume", "resume a topic") };
        let question = Question::post(format!("{}/{verb}", topic_path(topic)), &wire::Nothing {}, doing);
        let wire::Changed { changed } = self.server.ask(question).await?;
        Ok(changed)
    }

    async fn forget_topic(&self, topic: &TopicId) -> Result<bool, StoreError> {
        const DOING: &str = "forget a topic";
        match self.server.ask_if_known::<wire::TopicPurged>(Question::delete(topic_path(topic), DOING)).await? {
            Ok(purged) => Ok(purged.forgotten),
            Err(problem) if problem.code == Code::TopicUnknown => Ok(true),
            Err(problem) if problem.code == Code::TopicHasJobs => Ok(false),
            Err(problem) => Err(self.server.refused(DOING, &problem)),
        }
    }
}

//! Jobs that wait for other jobs: what scripts get about them, and what they answer.

use std::collections::HashMap;

use redis::{RedisResult, pipe};

use super::connection::error::unexpected;
use super::key_names::Keys;
use super::script::reply::Reply;
use super::script::{Call, script};
use super::store::{Partition, SCRIPT_JOBS};
use crate::{BatchSealed, Predecessor, StoreError, WaitsFor};
use gristmill_core::job::{Ended, JobId, JobOptions, JobSpec, Name, NewJob, NoLink};

/// The jobs that new jobs name, each with its topic; `None` if it is not stored.
#[derive(Debug, Default)]
pub(super) struct Named(HashMap<JobId, Option<Name>>);

/// Where among the keys of a call those of the named jobs are: the dead ones of the job's topic, and its result.
#[derive(Debug, Default)]
pub(super) struct NamedKeys(HashMap<JobId, (usize, usize)>);

impl Named {
    /// Adds the keys of the jobs that `jobs` name to those of a call.
    pub(super) fn add_keys<'a>(
        &self,
        keys: &Keys,
        names: &mut Vec<String>,
        jobs: impl IntoIterator<Item = &'a NewJob>,
    ) -> NamedKeys {
        let mut added = NamedKeys::default();
        for id in jobs.into_iter().flat_map(|job| &job.spec.options.after) {
            if added.0.contains_key(id) {
                continue;
            }
            let dead = self.0.get(id).and_then(Option::as_ref).map_or(0, |topic| {
                names.push(keys.dead(topic));
                names.len()
            });
            names.push(keys.result(id));
            added.0.insert(id.clone(), (dead, names.len()));
        }
        added
    }
}

impl NamedKeys {
    /// What `read_links` of `links.lua` reads about a job.
    pub(super) fn words(&self, spec: &JobSpec) -> String {
        let JobOptions { after, batch, open, .. } = &spec.options;
        let mut words = format!("{} {}", if *open { "o" } else { "-" }, batch.as_ref().map_or("-", JobId::as_str));
        for id in after {
            let (dead, result) = self.0.get(id).copied().unwrap_or_default();
            words.push_str(&format!(" {id} {dead} {result}"));
        }
        words
    }
}

impl Partition {
    /// Looks up the jobs that new ones are to wait for.
    pub(super) async fn named<'a>(
        &self,
        doing: &'static str,
        jobs: impl IntoIterator<Item = &'a NewJob>,
    ) -> Result<Named, StoreError> {
        let mut by_tenant: HashMap<&Name, Vec<&JobId>> = HashMap::new();
        for job in jobs {
            if !job.spec.options.after.is_empty() {
                by_tenant.entry(&job.spec.topic.tenant).or_default().extend(&job.spec.options.after);
            }
        }
        let mut named = Named::default();
        for (tenant, ids) in by_tenant {
            for ids in ids.chunks(SCRIPT_JOBS) {
                let mut call = Call::new(script!("links/topics_of.lua"), &[self.keys(tenant).jobs()]);
                call.arg(ids.iter().map(|id| id.as_str()).collect::<Vec<_>>());
                let mut reply = self.reply(doing, call).await?;
                for id in ids {
                    let topic = reply.text().map_err(self.misread(doing))?.parse().ok();
                    named.0.insert((*id).clone(), topic);
                }
            }
        }
        Ok(named)
    }

    /// Goes on with the work that remains after ends of jobs. Returns how much was done.
    pub(super) async fn carry_ends(&self, keys: &Keys) -> Result<usize, StoreError> {
        const DOING: &str = "pass on the ends of jobs";
        let mut call = Call::new(
            script!("keys/line.lua", "keys/waiting.lua", "links/links.lua", "links/carry.lua"),
            &keys.waiting(),
        );
        call.arg(self.now_argument()).arg(keys.wake_channel());
        let passed = self.reply(DOING, call).await?.integer().map_err(self.misread(DOING))?;
        Ok(usize::try_from(passed).unwrap_or(0))
    }

    pub(crate) async fn seal(&self, tenant: &Name, id: &JobId) -> Result<BatchSealed, StoreError> {
        const DOING: &str = "seal a batch";
        let keys = self.keys(tenant);
        let mut call = Call::new(
            script!("keys/line.lua", "keys/waiting.lua", "links/links.lua", "links/seal.lua"),
            &keys.waiting(),
        );
        call.arg(self.now_argument()).arg(keys.wake_channel()).arg(id.as_str());
        let answer = self.link.run(DOING, vec![call]).await?;
        Ok(match answer.first() {
            Some(redis::Value::Int(1)) => BatchSealed::Sealed,
            Some(redis::Value::Int(2)) => BatchSealed::Before,
            _ => BatchSealed::NotWaiting,
        })
    }
}

impl Partition {
    pub(crate) async fn waits_for(
        &self,
        tenant: &Name,
        id: &JobId,
        limit: usize,
    ) -> Result<Option<WaitsFor>, StoreError> {
        const DOING: &str = "look for what a job waits for";
        let mut call = Call::new(script!("links/waits_for.lua"), &[self.keys(tenant).links()]);
        call.arg(id.as_str()).arg(limit);
        let reply = self.reply(DOING, call).await?;
        if reply.is_empty() {
            return Ok(None);
        }
        read_waits_for(reply, limit).map(Some).map_err(self.misread(DOING))
    }

    pub(crate) async fn waiters(&self, tenant: &Name, id: &JobId) -> Result<Vec<JobId>, StoreError> {
        let before = format!("j {id} ");
        let mut ask = pipe();
        ask.cmd("ZRANGEBYLEX").arg(self.keys(tenant).links()).arg(format!("[{before}")).arg(format!("({before}~"));
        let (members,): (Vec<String>,) = self.link.query("look for what waits for a job", &ask).await?;
        Ok(members.iter().filter_map(|member| member.strip_prefix(&before)?.parse().ok()).collect())
    }

    /// Whether a job is stored, or its result is kept.
    pub(super) async fn knows(&self, tenant: &Name, id: &JobId) -> Result<bool, StoreError> {
        let keys = self.keys(tenant);
        let mut ask = pipe();
        ask.cmd("HEXISTS").arg(keys.jobs()).arg(id.as_str()).cmd("EXISTS").arg(keys.result(id));
        let (stored, kept): (bool, bool) = self.link.query("look for a job", &ask).await?;
        Ok(stored || kept)
    }
}

fn read_waits_for(mut reply: Reply, limit: usize) -> RedisResult<WaitsFor> {
    let mut found = WaitsFor { open: reply.number()? == 1, ..WaitsFor::default() };
    // In the order of the script's letters.
    let others = [Ended::Dead, Ended::Expired, Ended::Unknown, Ended::Cancelled, Ended::Complete];
    for ended in std::iter::once(None).chain(others.map(Some)) {
        let n = reply.number()?;
        found.total += n;
        found.ended += if ended.is_some() { n } else { 0 };
        found.failed += if ended.is_some_and(|ended| ended != Ended::Complete) { n } else { 0 };
        for _ in 0..reply.number()? {
            let id = reply.text()?.parse().map_err(|_| unexpected("a job waits for what is no job"))?;
            found.jobs.push(Predecessor { id, ended });
        }
    }
    let rank = |job: &Predecessor| match job.ended {
        None => 0,
        Some(Ended::Complete) => 2,
        Some(_) => 1,
    };
    found.jobs.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.id.cmp(&b.id)));
    found.jobs.truncate(limit);
    Ok(found)
}

/// Reads why a job is not stored: a problem, and the job that it is about.
pub(super) fn read_problem(text: &str) -> RedisResult<NoLink> {
    let unknown = || unexpected("push.lua named a problem that is none");
    let (problem, id) = text.split_once(' ').ok_or_else(unknown)?;
    let id = id.parse().map_err(|_| unknown())?;
    Ok(match problem {
        "unknown" => NoLink::Unknown(id),
        "crowded" => NoLink::Crowded(id),
        "not-open" => NoLink::NotOpen(id),
        "full" => NoLink::Full(id),
        "tangled" => NoLink::Tangled(id),
        _ => return Err(unknown()),
    })
}

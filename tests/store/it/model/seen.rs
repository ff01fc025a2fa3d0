//! What can be seen of the model: all that a store must show alike.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gristmill_core::job::{Job, JobId, JobSpec, Name, Payload, TopicId};
use gristmill_core::time::Timestamp;
use gristmill_core::token::Token;
use gristmill_store::{
    BehindKey, JobState, JobView, LimitReached, Pause, StateFilter, StoredJob, StoredPlace, TopicCounts,
};

use super::plain::{Key, Model, TopicState};

impl Model {
    /// The oldest first.
    pub(super) fn dead(&self, topic: &TopicId) -> Vec<(Timestamp, JobId)> {
        let ids = self.jobs.values().map(|record| &record.job.spec.id);
        let mut dead: Vec<_> = ids.filter_map(|id| Some((self.dead_since(topic, id)?, id.clone()))).collect();
        dead.sort();
        dead
    }

    pub(super) fn view(&self, key: &Key) -> Option<JobView> {
        let (id, result) = (key.1.clone(), self.results.get(key).cloned());
        if let Some(record) = self.jobs.get(key) {
            return Some(JobView {
                state: record.place.clone(),
                job: Some(record.job.clone()),
                last_failure: record.failure.clone(),
                result: result.map(|(_, result)| result),
                behind: self.behind(&record.job.spec),
                rate_of_key: self.is_held_back(record),
                checkpoint: record.checkpoint.clone().map(|data| Payload { data, content_type: None }),
                ..JobView::over(id, record.attempts, None)
            });
        }
        let (attempts, result) = result?;
        Some(JobView { result: Some(result), ..JobView::over(id, attempts, None) })
    }

    fn behind(&self, spec: &JobSpec) -> Option<BehindKey> {
        let (topic, key) = (self.topics.get(&spec.topic)?, spec.options.key.as_ref()?);
        let ahead = topic.behind.get(key)?.iter().position(|id| *id == spec.id)? as u64;
        let mut holders = topic.slots.get(key).cloned().unwrap_or_default();
        holders.sort();
        Some(BehindKey { holders, ahead })
    }

    pub(super) fn is_blurred(&self, key: &Key) -> bool {
        self.blurred.contains(key)
    }

    pub(super) fn counts(&self, tenant: &Name) -> Vec<TopicCounts> {
        let topics =
            self.topics.iter().filter(|(id, topic)| id.tenant == *tenant && (topic.held_a_job || topic.paused));
        let counts = topics.map(|(id, topic)| {
            let (paused, totals) = (topic.paused, topic.totals.clone());
            let heads = topic.ready.iter().filter_map(|line| self.jobs.get(&(tenant.clone(), line.front()?.clone())));
            let oldest_ready = heads.map(|record| record.job.due_at).min();
            let mut counts = TopicCounts {
                topic: id.clone(),
                ready: 0,
                waiting_for_key: topic.behind.values().map(|behind| behind.len() as u64).sum(),
                delayed: 0,
                waiting: 0,
                running: 0,
                dead: 0,
                oldest_ready,
                paused,
                pause: paused.then_some(Pause { since: topic.paused_at, by: None }),
                limited: topic.at_limit.then_some(LimitReached::MaxRunning),
                totals,
            };
            for record in self.jobs.values().filter(|record| record.job.spec.topic == *id) {
                *match record.place {
                    JobState::Ready => &mut counts.ready,
                    JobState::Delayed { .. } | JobState::Waiting => &mut counts.delayed,
                    JobState::Running { .. } => &mut counts.running,
                    JobState::Dead { .. } => &mut counts.dead,
                    JobState::Finished => unreachable!("a finished job has no record"),
                } += 1;
            }
            counts
        });
        counts.collect()
    }

    /// Topics that have ready jobs, are not paused and may run more jobs; and those that a store may take for such.
    pub(super) fn ready(&self, tenant: &Name) -> (BTreeSet<TopicId>, BTreeSet<TopicId>) {
        let going = self.topics.iter().filter(|(id, topic)| id.tenant == *tenant && !topic.at_limit);
        let perhaps: BTreeMap<_, _> = going.filter(|(_, topic)| topic.perhaps_ready).collect();
        let surely = perhaps.iter().filter(|(_, topic)| topic.ready.iter().any(|ready| !ready.is_empty()));
        (surely.map(|(id, _)| (*id).clone()).collect(), perhaps.keys().map(|id| (*id).clone()).collect())
    }

    /// Topics that have ready jobs and are not paused, whether or not they may run more.
    pub(super) fn in_line(&self, tenant: &Name) -> BTreeSet<TopicId> {
        let going = self.topics.iter().filter(|(id, topic)| id.tenant == *tenant && topic.perhaps_ready);
        let with_jobs = going.filter(|(_, topic)| topic.ready.iter().any(|ready| !ready.is_empty()));
        with_jobs.map(|(id, _)| id.clone()).collect()
    }

    pub(super) fn cancelled(&self, tenant: &Name) -> BTreeSet<JobId> {
        let of_tenant = self.jobs.iter().filter(|((owner, _), _)| owner == tenant);
        let cancelled =
            of_tenant.filter(|(_, record)| matches!(record.place, JobState::Running { cancelled: true, .. }));
        cancelled.map(|((_, id), _)| id.clone()).collect()
    }

    pub(super) fn killed(&self, tenant: &Name) -> BTreeSet<JobId> {
        let killed = self.jobs.iter().filter(|((owner, _), record)| owner == tenant && record.killed);
        killed.map(|((_, id), _)| id.clone()).collect()
    }

    /// The jobs of a place in the order of a list, without their results.
    pub(super) fn list(&self, topic: &TopicId, place: StateFilter) -> Vec<JobView> {
        let ids: Vec<JobId> = match place {
            StateFilter::Ready => {
                let topic = self.topics.get(topic).into_iter();
                let in_order = |topic: &TopicState| {
                    [
                        topic.ready.iter().flatten().cloned().collect::<Vec<_>>(),
                        topic.behind.values().flatten().cloned().collect(),
                    ]
                    .concat()
                };
                topic.flat_map(in_order).collect()
            }
            StateFilter::Delayed => {
                let delayed = self.delayed(&topic.tenant).into_iter();
                delayed.filter(|(of, ..)| of == topic).map(|(.., id)| id).collect()
            }
            StateFilter::Running => {
                let running = self.jobs.values().filter(|record| matches!(record.place, JobState::Running { .. }));
                let of_topic = running.filter(|record| record.job.spec.topic == *topic);
                of_topic.map(|record| record.job.spec.id.clone()).collect()
            }
            StateFilter::Dead => self.dead(topic).into_iter().rev().map(|(_, id)| id).collect(),
        };
        let views = ids.into_iter().filter_map(|id| self.view(&(topic.tenant.clone(), id)));
        views.map(|view| JobView { result: None, behind: None, rate_of_key: false, checkpoint: None, ..view }).collect()
    }

    fn is_behind(&self, topic: &TopicId, id: &JobId) -> bool {
        self.topics.get(topic).is_some_and(|topic| topic.behind.values().flatten().any(|behind| behind == id))
    }

    /// Everything of a topic that is not running, in the order in which it would leave.
    pub(super) fn export(&self, topic: &TopicId) -> Vec<StoredJob> {
        let [ready, delayed, dead] =
            [StateFilter::Ready, StateFilter::Delayed, StateFilter::Dead].map(|place| self.list(topic, place));
        let (behind, ready): (Vec<_>, Vec<_>) = ready.into_iter().partition(|view| self.is_behind(topic, &view.id));
        let in_order = ready.into_iter().chain(delayed).chain(dead.into_iter().rev()).chain(behind);
        let stored = in_order.map(|JobView { id, .. }| {
            let record = self.jobs[&(topic.tenant.clone(), id)].clone();
            let unique_for = self.unique_for(&record.job);
            let holds_slot = !matches!(record.place, JobState::Ready)
                && self.topics[topic].slots.values().flatten().any(|holder| *holder == record.job.spec.id);
            StoredJob {
                job: record.job,
                sealed: None,
                place: match record.place {
                    JobState::Delayed { until } => StoredPlace::Delayed { until },
                    JobState::Dead { since } => StoredPlace::Dead { since },
                    _ => StoredPlace::Ready,
                },
                attempts: record.attempts,
                deliveries: record.deliveries,
                last_failure: record.failure,
                checkpoint: record.checkpoint,
                holds_slot,
                unique_for,
            }
        });
        stored.collect()
    }

    fn unique_for(&self, job: &Job) -> Option<Duration> {
        let value = &job.spec.options.unique.as_ref()?.value;
        let (holder, until) = self.topics.get(&job.spec.topic)?.unique.get(value)?;
        let until = until.filter(|until| *holder == job.spec.id && self.now < *until)?;
        Some(until.since(self.now))
    }

    /// The tokens of a tenant, or all: the oldest first.
    pub(super) fn tokens_of(&self, tenant: Option<&Name>) -> Vec<Token> {
        let tokens = self.tokens.values().filter(|token| tenant.is_none() || token.tenant.as_ref() == tenant);
        let mut tokens: Vec<Token> = tokens.cloned().collect();
        tokens.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        tokens
    }

    /// The token with how long it is valid, unless it has expired.
    pub(super) fn valid(&self, token: &Token) -> Option<(Token, Option<Duration>)> {
        let left = token.expires_at.map(|end| end.since(self.now));
        (left != Some(Duration::ZERO)).then(|| (token.clone(), left))
    }
}

//! Push: from jobs to bounded calls of `push.lua`, and how scripts take new jobs.

mod gather;
pub(in crate::redis) mod gathering;

use std::time::Duration;

use redis::{RedisResult, Value};

use crate::batch::{STEP, Weight, parts as cut};
use crate::clock::{due_ms, wait_ms};
use crate::redis::connection::error::unexpected;
use crate::redis::envelope;
use crate::redis::key_names::Keys;
use crate::redis::links::{Named, NamedKeys, read_problem};
use crate::redis::script::reply::Reply;
use crate::redis::script::run::{BatchCall, positions};
use crate::redis::script::{Call, script};
use crate::redis::store::{Numbered, Partition, by_tenant, in_order};
use crate::{Pushed, StoreError};
use gather::is_small;
use gristmill_core::job::{Due, JobSpec, Name, NewJob, Priority, Unique};

const DOING: &str = "push jobs";

/// What `push.lua` does in another way: see its arguments.
const FOLLOW: &str = "follow";
const CLAIMED: &str = "claimed";

/// A job's position in the batch, the job, and its envelope.
type Packed<'a> = (usize, (&'a NewJob, Vec<u8>));

impl Partition {
    pub(in crate::redis) async fn push(&self, jobs: &[NewJob]) -> Result<Vec<Pushed>, StoreError> {
        match jobs {
            [job] if is_small(job) => self.push_gathered(job).await,
            jobs => self.push_batch(jobs).await,
        }
    }
}

impl Partition {
    pub(in crate::redis) async fn push_batch(&self, jobs: &[NewJob]) -> Result<Vec<Pushed>, StoreError> {
        self.push_all(jobs, "").await
    }

    /// The same for a job whose topic is claimed from behind it.
    pub(in crate::redis) async fn push_claimed(&self, job: &NewJob) -> Result<Vec<Pushed>, StoreError> {
        self.push_all(std::slice::from_ref(job), CLAIMED).await
    }

    /// Pushes jobs that follow attempts that have ended. What one cannot wait for counts as ended, as [`Ended::Unknown`]: none is refused.
    ///
    /// [`Ended::Unknown`]: gristmill_core::job::Ended::Unknown
    pub(in crate::redis) async fn push_followers(&self, jobs: &[NewJob]) -> Result<Vec<Pushed>, StoreError> {
        self.push_all(jobs, FOLLOW).await
    }

    async fn push_all(&self, jobs: &[NewJob], how: &'static str) -> Result<Vec<Pushed>, StoreError> {
        let groups = by_tenant(jobs, |job| &job.spec.topic.tenant);
        self.list_tenants(DOING, groups.keys().copied()).await?;
        let some_linked = jobs.iter().any(|job| job.spec.options.is_linked());
        let (mut parts, mut answers) = (Vec::new(), Vec::new());
        for (tenant, group) in groups {
            let keys = self.keys(tenant);
            let packed = group.into_iter().map(|(position, job)| Ok((position, (job, self.pack(DOING, job)?))));
            let packed = packed.collect::<Result<Vec<_>, StoreError>>()?;
            for (part, _) in cut(packed, STEP, |(_, (job, _))| Weight::of_new(job)) {
                let named = if some_linked {
                    self.named(DOING, part.iter().map(|(_, (job, _))| *job)).await?
                } else {
                    Named::default()
                };
                let call = self.push_call(&keys, &part, &named, how);
                let positions = positions(&part);
                if some_linked {
                    // One after the other: a job may be in one step, and what waits for it in the next.
                    let pushed = self.run_batch_acknowledged(
                        DOING,
                        vec![BatchCall { call, positions: (0..positions.len()).collect(), read }],
                    );
                    answers.extend(positions.into_iter().zip(pushed.await?));
                } else {
                    parts.push(BatchCall { call, positions, read });
                }
            }
        }
        if some_linked { Ok(in_order(answers)) } else { self.run_batch_acknowledged(DOING, parts).await }
    }

    pub(in crate::redis) fn pack(&self, doing: &'static str, job: &NewJob) -> Result<Vec<u8>, StoreError> {
        envelope::write(&job.spec).map_err(|error| self.refused(doing, error))
    }

    fn push_call(&self, keys: &Keys, jobs: &[Packed<'_>], named: &Named, how: &'static str) -> Call {
        let mut topics: Numbered<&Name> = Numbered(Vec::new());
        for (_, (job, _)) in jobs {
            topics.number(&job.spec.topic.topic);
        }
        let mut names = keys.with_rows([], topics.0.iter().copied());
        let named = named.add_keys(keys, &mut names, jobs.iter().map(|(_, (job, _))| *job));
        // An earlier job may have had one of these ids.
        let ids = jobs.iter().map(|(_, (job, _))| &job.spec.id).enumerate();
        let reused: Vec<_> = ids.filter(|(_, id)| !id.is_fresh()).collect();
        names.extend(reused.iter().map(|(_, id)| keys.result(id)));
        let mut call = Call::new(
            script!("signals/waiters.lua", "signals/wake.lua", "path/push/plain_push.lua"; "keys/line.lua", "keys/waiting.lua", "links/links.lua", "path/push/insert.lua", "path/push/push.lua"),
            &names,
        );
        call.arg(self.now_argument()).arg(keys.wake_channel()).arg(how).topics(&topics.0);
        call.arg(reused.len()).arg(reused.iter().map(|(position, _)| position + 1).collect::<Vec<_>>());
        let jobs: Vec<_> = jobs
            .iter()
            .map(|(_, (job, packed))| NewJobArgument { job, packed, follows: None, is_elsewhere: false })
            .collect();
        add_jobs(&mut call, &jobs, &mut topics, &named);
        call
    }
}

/// A new job on its way to a script.
pub(in crate::redis) struct NewJobArgument<'a> {
    pub(in crate::redis) job: &'a NewJob,
    pub(in crate::redis) packed: &'a [u8],
    /// The position, counted from 1, of the settlement that it follows.
    pub(in crate::redis) follows: Option<usize>,
    /// Another partition is to have it.
    pub(in crate::redis) is_elsewhere: bool,
}

/// New jobs as `read_new` of `insert.lua` takes them: those that follow each other and are alike together. Without a topic's number: they go to the outbox.
pub(in crate::redis) fn add_jobs<'a>(
    call: &mut Call,
    jobs: &[NewJobArgument<'a>],
    topics: &mut Numbered<&'a Name>,
    named: &NamedKeys,
) {
    type Alike<'a> = (Option<&'a Name>, Due, Priority, Option<Option<Duration>>, bool, bool);
    fn alike<'a>(NewJobArgument { job, is_elsewhere, .. }: &NewJobArgument<'a>) -> Alike<'a> {
        let topic = (!is_elsewhere).then_some(&job.spec.topic.topic);
        let window = job.spec.options.unique.as_ref().map(|unique| unique.window);
        (
            topic,
            job.due,
            job.spec.options.priority,
            window,
            job.spec.shared_key().is_some(),
            job.spec.options.is_linked(),
        )
    }
    for run in jobs.chunk_by(|one, next| alike(one) == alike(next)) {
        let Some(first) = run.first() else { continue };
        let (topic, due, _, window, is_keyed, is_linked) = alike(first);
        call.arg(topic.map_or(0, |topic| topics.number(topic))).arg(due_argument(due)).arg(priority(&first.job.spec));
        call.arg(window.map_or_else(|| "-".into(), window_argument))
            .arg(yes(is_keyed))
            .arg(yes(is_linked))
            .arg(run.len());
        for NewJobArgument { job, packed, follows, .. } in run {
            call.arg(job.spec.id.as_str()).arg(packed);
            if let Some(unique) = &job.spec.options.unique {
                call.arg(&unique.value);
            }
            if let Some(key) = job.spec.shared_key() {
                call.arg(key);
            }
            if is_linked {
                call.arg(named.words(&job.spec));
            }
            if let Some(position) = follows {
                call.arg(position);
            }
        }
    }
}

pub(in crate::redis) fn due_argument(due: Due) -> String {
    match due {
        // No wait is rounded up to none.
        Due::Now | Due::After(Duration::ZERO) => String::new(),
        Due::After(wait) => format!("+{}", wait_ms(wait)),
        Due::At(at) => due_ms(at).to_string(),
    }
}

/// For how long a unique value is held, as `insert.lua` takes it.
fn window_argument(window: Option<Duration>) -> String {
    window.map_or_else(String::new, |window| wait_ms(window).to_string())
}

/// A priority as scripts take it: empty for the usual one.
pub(in crate::redis) fn priority(spec: &JobSpec) -> &'static str {
    match spec.options.priority {
        Priority::Normal => "",
        other => other.as_str(),
    }
}

/// Whether something is so, as scripts take it.
pub(in crate::redis) fn yes(is: bool) -> &'static str {
    if is { "1" } else { "" }
}

/// A unique value as `import.lua` takes it: for how long, and which.
pub(in crate::redis) fn held(unique: &Unique) -> String {
    format!("{}:{}", window_argument(unique.window), unique.value)
}

fn read(reply: Reply, jobs: usize) -> RedisResult<Vec<Pushed>> {
    reply.all_but(jobs, Pushed::Stored, |reply| match reply.value()? {
        Value::Int(0) => Ok(Pushed::Exists),
        Value::BulkString(text) => {
            let text = String::from_utf8(text).unwrap_or_default();
            if text.contains(' ') {
                return Ok(Pushed::Refused(read_problem(&text)?));
            }
            Ok(Pushed::Duplicate(text.parse().map_err(|_| unexpected("what holds a unique value is no job"))?))
        }
        _ => Err(unexpected("push.lua answered something else")),
    })
}

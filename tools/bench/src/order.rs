//! Whether limits and shares are what the manifest says, to the percent.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use anyhow::Context;
use tokio::sync::mpsc::UnboundedReceiver;

use super::figure::{Figure, Ratio, Spread};
use super::load::{drain, fill_topics, fill_with, job};
use super::scenario::both_clocks;
use super::stopwatch::{Stopwatch, figure};
use super::test_bed::{TestBed, recorded};
use gristmill_core::job::{Due, JobId, Name, NewJob, TopicId};
use gristmill_runner::AttemptRecord;

/// How many jobs of [`keys`] share a key.
const PER_KEY: usize = 100;
/// Of the topic whose rate is measured.
const PER_SECOND: u64 = 1000;
const BURST: u64 = 10;
/// How many runners share a topic; a file has one.
const RUNNERS: usize = 3;

/// A full queue on three runners, of jobs that have keys, 100 of each, or none: one of a key runs at a time, and the end of each lets the next
/// one start. Returns as well how many of the jobs are a fault: they started again, or before one of their key that was pushed earlier.
///
/// # Errors
/// If the store fails.
pub async fn keys(bed: &TestBed, jobs: usize, keyed: bool) -> anyhow::Result<(Figure, usize)> {
    let keys = if keyed { jobs.div_ceil(PER_KEY) } else { 0 };
    let runners = if bed.settings.store.is_redis() { RUNNERS } else { 1 };
    let case = if keyed { format!("{keys} keys, {runners} runners") } else { format!("no keys, {runners} runners") };
    bed.settings.progress.begin(format!("keys: {case}"), 2 * jobs);
    let mut numbers: HashMap<JobId, usize> = HashMap::with_capacity(jobs);
    let new = |number: usize| -> NewJob {
        let mut job = job(bed, Due::Now);
        job.spec.options.key = keyed.then(|| format!("key-{}", number % keys));
        numbers.insert(job.spec.id.clone(), number);
        job
    };
    fill_with(bed, jobs, (0..).map(new)).await?;
    let stopwatch = Stopwatch::begin(bed, None);
    let (herd, mut records) = if bed.settings.store.is_redis() {
        let (observer, records) = recorded();
        (bed.run_herd(RUNNERS, observer).await?, records)
    } else {
        let (runner, records) = bed.run()?;
        (vec![runner], records)
    };
    let mut started = Vec::with_capacity(jobs);
    while started.len() < jobs {
        let Some(record) = records.recv().await else { break };
        if let (Some(number), Some(run)) = (numbers.get(&record.claim.lease.job), record.run) {
            started.push((run.started, *number));
        }
        bed.settings.progress.add(1);
    }
    let figure = stopwatch.end(bed, "keys", jobs).case(case);
    for runner in herd {
        runner.end().await;
    }
    Ok((figure, if keyed { out_of_order(started, keys) } else { 0 }))
}

/// How many of the jobs, each with when it started, come no later in the order of their key than one that started before them.
fn out_of_order<T: Ord>(mut started: Vec<(T, usize)>, keys: usize) -> usize {
    started.sort_unstable();
    let mut latest: HashMap<usize, usize> = HashMap::new();
    let numbers = started.into_iter().map(|(_, number)| number);
    numbers.filter(|number| latest.insert(number % keys, *number).is_some_and(|last| last >= *number)).count()
}

/// A full queue of a topic with `rate = "1000/s"` and `burst = 10`, on three runners: how many jobs start in each second, by the store's
/// clock, and how many came at once. The bed is used up.
///
/// # Errors
/// If the store is not a Redis, or fails.
pub async fn rate(bed: &TestBed, seconds: usize) -> anyhow::Result<Figure> {
    let jobs = seconds * usize::try_from(PER_SECOND)?;
    bed.settings.progress.begin("rate", 2 * jobs);
    bed.serve_manifest(&format!(
        "[topics.bench]\nhandler = \"bench\"\nconcurrency = 100\nrate = \"{PER_SECOND}/s\"\nburst = {BURST}\n"
    ))?;
    fill_topics(bed, std::slice::from_ref(&bed.topic), jobs, Due::Now).await?;
    let (observer, mut records) = recorded();
    let herd = bed.run_herd(RUNNERS, observer).await?;
    let records = take(bed, &mut records, jobs).await;
    for runner in herd {
        runner.end().await;
    }
    let mut claimed: Vec<u64> = records.iter().map(|record| record.claim.claimed_at.as_millis()).collect();
    claimed.sort_unstable();
    let first = claimed.first().copied().context("no job was done")?;
    let mut starts: BTreeMap<u64, usize> = BTreeMap::new();
    for at in &claimed {
        *starts.entry((at - first) / 1000).or_default() += 1;
    }
    // The last one is seldom whole.
    starts.pop_last();
    let (least, most) = (starts.values().min().copied(), starts.values().max().copied());
    let at_once = at_once(&claimed);
    let case = format!(
        "{PER_SECOND}/s, {RUNNERS} runners: {} to {} in a second, at most {at_once} at once of {BURST}",
        least.unwrap_or_default(),
        most.unwrap_or_default()
    );
    let taken = claimed.last().map_or(0, |last| last - first).max(1);
    let per_second = (jobs - 1) as f64 * 1000.0 / taken as f64;
    let ratio = Some(Ratio { value: per_second / PER_SECOND as f64, of: "the rate".to_owned() });
    Ok(Figure { jobs_per_second: Some(per_second), ratio, ..figure(bed, "rate", jobs).case(case) })
}

/// Schedules of a second each, on ten runners: how long after each tick its job starts. Returns as well how many of the jobs are a fault: they
/// started early, or their tick had a job already. Runners and store must share a clock. The bed is used up.
///
/// # Errors
/// If the store is not a Redis, or fails.
pub async fn ticks(bed: &TestBed, ticks: usize) -> anyhow::Result<(Figure, usize)> {
    /// That share a topic.
    const SCHEDULES: usize = 50;
    const RUNNERS: usize = 10;
    bed.settings.progress.begin("ticks", ticks);
    let mut manifest = "[topics.bench]\nhandler = \"bench\"\n".to_owned();
    for number in 0..SCHEDULES {
        manifest += &format!("[topics.bench.schedule.s{number}]\nevery = \"1s\"\nbody = \"s{number}\"\n");
    }
    bed.serve_manifest(&manifest)?;
    let (observer, mut records) = recorded();
    let (now, begun) = both_clocks();
    let herd = bed.run_herd(RUNNERS, observer).await?;
    let records = take(bed, &mut records, ticks).await;
    for runner in herd {
        runner.end().await;
    }
    let (mut delays, mut done, mut faults) = (Vec::with_capacity(ticks), BTreeSet::new(), 0);
    for record in &records {
        let (job, Some(run)) = (&record.claim.job, record.run) else { continue };
        // A schedule's first tick is after it was made.
        let due = begun + Duration::from_millis(job.due_at.as_millis().saturating_sub(now.as_millis()));
        let again = !done.insert((&job.spec.body.data, job.due_at));
        faults += usize::from(again || record.claim.claimed_at < job.due_at);
        delays.push(run.started.saturating_duration_since(due));
    }
    let case = format!("{SCHEDULES} schedules of a second, {RUNNERS} runners");
    Ok((Figure { delay: Spread::of(delays), ..figure(bed, "ticks", records.len()).case(case) }, faults))
}

/// The most that came at once: by how much the starts of any span are more than the rate gives for it. Sorted milliseconds; the clock
/// has no finer ones, so one more may have been allowed.
fn at_once(claimed: &[u64]) -> i64 {
    let first = claimed.first().copied().unwrap_or_default();
    let (mut most, mut least_before) = (0, i64::MAX);
    for (number, at) in (1i64..).zip(claimed) {
        let over = number - i64::try_from((at - first) * PER_SECOND / 1000).unwrap_or(i64::MAX);
        least_before = least_before.min(over - 1);
        most = most.max(over - least_before);
    }
    most
}

/// A tenant among those that share a runner.
#[derive(Debug, Clone, Copy)]
pub struct TenantLoad {
    /// The share that it is to get, beside the others.
    pub weight: u32,
    /// Its jobs are dealt out to so many topics.
    pub topics: usize,
    /// How many jobs it has, times what the one with the fewest has.
    pub jobs: usize,
}

/// A tenant, and its topics.
type TenantTopics = (Name, Vec<TopicId>);

/// How tenants share a runner while all of them have jobs, by the fuel that their jobs use. The ratio is that of the first one's share to what
/// its weight says, and of more than two tenants Jain's index.
///
/// # Errors
/// If the store fails.
pub async fn shares(bed: &TestBed, case: &str, loads: &[TenantLoad], jobs: usize) -> anyhow::Result<Figure> {
    let pushed: usize = loads.iter().map(|load| load.jobs * jobs).sum();
    bed.settings.progress.begin(format!("shares: {case}"), 2 * pushed);
    let (manifest, tenants) = manifest(loads, bed.settings.concurrency)?;
    bed.serve_manifest(&manifest)?;
    for (load, (_, topics)) in loads.iter().zip(&tenants) {
        fill_topics(bed, topics, load.jobs * jobs, Due::Now).await?;
    }
    // While even the one with the fewest jobs for its weight has some left.
    let weights: u32 = loads.iter().map(|load| load.weight).sum();
    let lasting = loads.iter().map(|load| load.jobs * jobs * weights as usize / load.weight as usize).min();
    let (runner, mut records) = bed.run()?;
    let records = take(bed, &mut records, lasting.unwrap_or_default() * 9 / 10).await;
    runner.end().await;
    for topic in tenants.iter().flat_map(|(_, topics)| topics) {
        drain(bed, topic).await?;
    }
    let mut fuel: BTreeMap<&Name, u64> = BTreeMap::new();
    for record in &records {
        *fuel.entry(&record.claim.lease.topic.tenant).or_default() += record.run.map_or(0, |run| run.fuel);
    }
    let all: u64 = fuel.values().sum();
    let shares: Vec<f64> = loads
        .iter()
        .zip(&tenants)
        .map(|(load, (tenant, _))| {
            let due = f64::from(load.weight) / f64::from(weights);
            fuel.get(tenant).copied().unwrap_or_default() as f64 / all.max(1) as f64 / due
        })
        .collect();
    let ratio = if let [first, _] = shares[..] {
        Ratio { value: first, of: "its share".to_owned() }
    } else {
        let (sum, squares): (f64, f64) =
            shares.iter().fold((0.0, 0.0), |(sum, squares), share| (sum + share, squares + share * share));
        Ratio { value: sum * sum / (shares.len() as f64 * squares), of: "1, Jain's index".to_owned() }
    };
    Ok(Figure { ratio: Some(ratio), ..figure(bed, "shares", records.len()).case(case) })
}

/// A manifest of these tenants, and the topics of each, which could use all slots: else the tenants would not compete.
fn manifest(loads: &[TenantLoad], concurrency: usize) -> anyhow::Result<(String, Vec<TenantTopics>)> {
    let mut manifest = String::new();
    let mut tenants: Vec<TenantTopics> = Vec::new();
    for (number, load) in loads.iter().enumerate() {
        let tenant = format!("t{number}");
        manifest += &format!("[tenants.{tenant}.limits]\nweight = {}\n", load.weight);
        let mut topics = Vec::new();
        for topic in 0..load.topics {
            manifest +=
                &format!("[tenants.{tenant}.topics.w{topic}]\nhandler = \"bench\"\nconcurrency = {concurrency}\n");
            topics.push(format!("{tenant}/w{topic}").parse()?);
        }
        tenants.push((tenant.parse()?, topics));
    }
    Ok((manifest, tenants))
}

/// The first so many attempts.
async fn take(bed: &TestBed, records: &mut UnboundedReceiver<AttemptRecord>, jobs: usize) -> Vec<AttemptRecord> {
    let mut taken = Vec::with_capacity(jobs);
    while taken.len() < jobs {
        let Some(record) = records.recv().await else { break };
        taken.push(record);
        bed.settings.progress.add(1);
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_that_start_before_earlier_ones_of_their_key_are_counted() {
        assert_eq!(out_of_order(vec![(1, 1), (2, 0), (3, 3), (4, 2)], 2), 0);
        assert_eq!(out_of_order(vec![(1, 2), (2, 1), (3, 0), (4, 3)], 2), 1);
        assert_eq!(out_of_order(vec![(1, 0), (2, 0)], 1), 1, "it started again");
    }

    #[test]
    fn what_comes_at_once_is_what_the_rate_does_not_give() {
        assert_eq!(at_once(&[0, 1, 2, 3]), 1);
        assert_eq!(at_once(&[0, 0, 0, 1, 2]), 3);
        assert_eq!(at_once(&[0, 500, 500, 500, 500]), 4, "what an idle topic saves up is not counted");
        assert_eq!(at_once(&[]), 0);
    }
}

//! What a runner and a store keep in memory.

use std::time::Duration;

use super::figure::Figure;
use super::load::{drain, fill_topics, job_with};
use super::stopwatch::figure;
use super::test_bed::{TestBed, TopicSetup, load, read, topic};
use super::usage;
use super::variant::variant;
use gristmill_core::job::Due;
use gristmill_sandbox::Sandbox;

/// An idle runner; each component that it has loaded beside its first; each attempt that is running.
///
/// What the process holds that no file backs, so that code (ours and the components') counts as what the kernel may drop.
/// In that order, and best in a process of its own: memory that was used once is seldom given back.
///
/// # Errors
/// If a component does not load, or the store fails.
pub async fn runner_memory(bed: &TestBed, sandbox: &Sandbox) -> anyhow::Result<Vec<Figure>> {
    const COMPONENTS: usize = 20;
    let (runner, records) = bed.run()?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let idle = usage::own_memory();
    runner.end().await;
    drop(records);

    let bytes = read(&bed.settings.handler)?;
    bed.settings.progress.begin("memory: components", COMPONENTS);
    let mut loaded = Vec::with_capacity(COMPONENTS);
    let before = usage::own_memory();
    for number in 0..COMPONENTS {
        loaded.push(sandbox.load(&variant(&bytes, &number.to_string())).await?);
        bed.settings.progress.add(1);
    }
    let each = usage::own_memory().saturating_sub(before) / COMPONENTS as u64;
    drop(loaded);

    let attempts = bed.settings.concurrency;
    let running = running(bed, sandbox, attempts).await? / attempts as u64;
    let cases = [
        ("an idle runner".to_owned(), 1, idle),
        (format!("each loaded component of {} kB", bytes.len() / 1000), COMPONENTS, each),
        (format!("each of {attempts} attempts at once"), attempts, running),
    ];
    Ok(cases.map(|(case, jobs, bytes)| kept(bed, case, jobs, bytes)).into())
}

/// How much more the process holds while so many attempts wait.
async fn running(bed: &TestBed, sandbox: &Sandbox, attempts: usize) -> anyhow::Result<u64> {
    const WORK: &str = r#"{"wait-ms": 2000}"#;
    let waiting = topic("waiting");
    let component = load(sandbox, &bed.settings.simulate).await?;
    bed.serve(vec![TopicSetup { topic: waiting.clone(), component, concurrency: attempts, reuse: 1 }]);
    bed.settings.progress.begin("memory: attempts", attempts);
    let jobs: Vec<_> = (0..attempts).map(|_| job_with(&waiting, WORK.as_bytes().to_vec(), Due::Now)).collect();
    bed.store.store.push(&jobs).await?;
    let before = usage::own_memory();
    let (runner, mut records) = bed.run()?;
    let mut most = before;
    for _ in 0..attempts {
        while let Err(_elapsed) = tokio::time::timeout(Duration::from_millis(20), records.recv()).await {
            most = most.max(usage::own_memory());
        }
        bed.settings.progress.add(1);
    }
    runner.end().await;
    Ok(most - before)
}

/// What the store takes for each job that is delayed. They stay; the bed is used up.
///
/// # Errors
/// If the store fails.
pub async fn store_memory(bed: &TestBed, jobs: usize) -> anyhow::Result<Option<Figure>> {
    const FAR: Duration = Duration::from_secs(24 * 3600);
    bed.settings.progress.begin("memory: delayed jobs", jobs);
    // What is made once does not count.
    fill_topics(bed, std::slice::from_ref(&bed.topic), 1, Due::Now).await?;
    drain(bed, &bed.topic).await?;
    let Some(before) = bed.store.bytes().await else { return Ok(None) };
    fill_topics(bed, std::slice::from_ref(&bed.topic), jobs, Due::After(FAR)).await?;
    let Some(after) = bed.store.bytes().await else { return Ok(None) };
    let each = after.saturating_sub(before) / jobs as u64;
    Ok(Some(Figure { store: bed.settings.store.to_string(), ..kept(bed, "each delayed job".into(), jobs, each) }))
}

fn kept(bed: &TestBed, case: String, jobs: usize, bytes: u64) -> Figure {
    Figure { memory_bytes: Some(bytes), store: String::new(), ..figure(bed, "memory", jobs).case(case) }
}

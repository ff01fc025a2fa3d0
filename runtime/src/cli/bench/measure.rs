//! Which scenario measures what, with how many jobs, and what it is compared with.

use std::time::Duration;

use super::show::Figures;
use super::{On, Scenario, ScenarioArgs};
use gristmill_bench::{self as bench, BenchSettings, Neighbour, TestBed};
use gristmill_sandbox::{Sandbox, SandboxSettings};

/// Measures what is wanted; tells how many jobs started early.
pub(super) async fn measure(
    args: &ScenarioArgs,
    settings: &BenchSettings,
    pool: &SandboxSettings,
    figures: &mut Figures,
) -> anyhow::Result<usize> {
    let mut early = 0;
    if args.wants(Scenario::Memory) {
        memory(args, settings, pool, figures).await?;
    }
    let sandbox = Sandbox::new(pool)?;
    if [Scenario::Floor, Scenario::Throughput, Scenario::Latency, Scenario::Lateness].iter().any(|s| args.wants(*s)) {
        early = main(args, settings, &sandbox, figures).await?;
    }
    if args.wants(Scenario::Scaling) {
        scaling(args, settings, &sandbox, figures).await?;
    }
    if args.wants(Scenario::Isolation) {
        isolation(args, settings, &sandbox, figures).await?;
    }
    if args.wants(Scenario::Reload) {
        let bed = TestBed::new(settings.clone(), &sandbox).await?;
        for compiled in [true, false] {
            figures.add(bench::reload(&bed, &sandbox, compiled, args.few()).await?)?;
        }
    }
    if args.wants(Scenario::Start) {
        let bed = TestBed::new(settings.clone(), &sandbox).await?;
        figures.add(bench::start(&bed, pool, 5 * args.few(), args.few().min(5)).await?)?;
    }
    if args.wants(Scenario::Reuse) {
        reuse(args, settings, &sandbox, figures).await?;
    }
    if args.wants(Scenario::Stores) {
        stores(args, settings, &sandbox, figures).await?;
    }
    if args.wants(Scenario::Http) {
        let bed = TestBed::new(settings.clone(), &sandbox).await?;
        for figure in bench::pushes_over_http(&bed, args.jobs()).await? {
            figures.add(figure)?;
        }
    }
    figures.print()?;
    Ok(early)
}

impl ScenarioArgs {
    fn jobs(&self) -> usize {
        self.jobs as usize
    }

    /// What is done one by one: thousands of them.
    fn some(&self) -> usize {
        self.jobs().min(2_000)
    }

    /// What takes long by itself: 20, unless a tiny run is wanted.
    fn few(&self) -> usize {
        (self.jobs() / 100).clamp(2, 20)
    }
}

async fn main(
    args: &ScenarioArgs,
    settings: &BenchSettings,
    sandbox: &Sandbox,
    figures: &mut Figures,
) -> anyhow::Result<usize> {
    let bed = TestBed::new(settings.clone(), sandbox).await?;
    let (mut floor, mut early) = (None, 0);
    if args.wants(Scenario::Floor) {
        figures.add(bench::sandbox_floor(&bed, args.jobs() / 5).await?)?;
        if settings.store.is_redis() {
            floor = Some(figures.add(bench::redis_floor(&bed, args.jobs()).await?)?);
        }
    }
    if args.wants(Scenario::Throughput) {
        let figure = bench::throughput(&bed, args.jobs()).await?;
        figures.add(match &floor {
            Some(floor) => figure.rate_of(floor, "bare Redis"),
            None => figure,
        })?;
    }
    if args.wants(Scenario::Latency) {
        figures.add(bench::latency(&bed, args.some()).await?)?;
    }
    if args.wants(Scenario::Lateness) {
        let burst = args.jobs().min(10_000);
        let (trickle, seconds) = if args.jobs() < 10_000 { (50, 1) } else { (500, 10) };
        for (jobs, seconds) in [(trickle, seconds), (burst, 1)] {
            let (figure, too_early) = bench::lateness(&bed, jobs, Duration::from_secs(seconds)).await?;
            figures.add(figure)?;
            early += too_early;
        }
    }
    Ok(early)
}

/// What is kept in memory for each of many things; attempts a thousand at once.
async fn memory(
    args: &ScenarioArgs,
    settings: &BenchSettings,
    pool: &SandboxSettings,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let attempts = args.jobs.min(1_000);
    let sandbox = Sandbox::new(&SandboxSettings { concurrency: attempts, ..pool.clone() })?;
    let settings = BenchSettings { concurrency: attempts as usize, ..settings.clone() };
    let bed = TestBed::new(settings, &sandbox).await?;
    for figure in bench::runner_memory(&bed, &sandbox).await? {
        figures.add(figure)?;
    }
    if let Some(figure) = bench::store_memory(&bed, args.jobs()).await? {
        figures.add(figure)?;
    }
    Ok(())
}

/// Each case with much is compared with the same case with little, measured right before.
async fn scaling(
    args: &ScenarioArgs,
    settings: &BenchSettings,
    sandbox: &Sandbox,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let (jobs, little, much) = (args.jobs(), args.jobs().min(1_000), 10 * args.jobs());
    let bed = async || TestBed::new(settings.clone(), sandbox).await;
    let few = figures.add(bench::backlog(&bed().await?, little, jobs).await?)?;
    figures.add(bench::backlog(&bed().await?, much, jobs).await?.rate_of(&few, &few.case))?;
    let few = figures.add(bench::topics(&bed().await?, 1, jobs).await?)?;
    figures.add(bench::topics(&bed().await?, little, jobs).await?.rate_of(&few, &few.case))?;
    let few = figures.add(bench::delayed(&bed().await?, little, jobs).await?)?;
    figures.add(bench::delayed(&bed().await?, much, jobs).await?.rate_of(&few, &few.case))?;
    Ok(())
}

async fn isolation(
    args: &ScenarioArgs,
    settings: &BenchSettings,
    sandbox: &Sandbox,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let bed = TestBed::new(settings.clone(), sandbox).await?;
    let mut alone = None;
    for beside in [Neighbour::None, Neighbour::Waiting, Neighbour::Computing(1), Neighbour::Computing(args.threads)] {
        let figure = bench::isolation(&bed, sandbox, beside, args.some() / 2).await?;
        let figure = match &alone {
            None => figure,
            Some(alone) => figure.p99_of(alone, "p99 alone"),
        };
        let figure = figures.add(figure)?;
        alone.get_or_insert(figure);
    }
    Ok(())
}

async fn reuse(
    args: &ScenarioArgs,
    settings: &BenchSettings,
    sandbox: &Sandbox,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let bed = TestBed::new(settings.clone(), sandbox).await?;
    let fresh = figures.add(bench::reuse(&bed, args.jobs(), 1).await?)?;
    figures.add(bench::reuse(&bed, args.jobs(), 1000).await?.rate_of(&fresh, "fresh"))?;
    Ok(())
}

/// The same work on each kind of store, one store after the other.
async fn stores(
    args: &ScenarioArgs,
    settings: &BenchSettings,
    sandbox: &Sandbox,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    /// Single pushes wait for the disk each: fewer of them say as much.
    const SINGLE_SHARE: usize = 5;
    let mut redis: Option<Vec<bench::Figure>> = None;
    for on in [On::Redis, On::EmbeddedProcess, On::Embedded] {
        let bed = TestBed::new(BenchSettings { store: on.into(), ..settings.clone() }, sandbox).await?;
        let steps = vec![
            bench::push(&bed, args.jobs()).await?,
            bench::push_singly(&bed, args.jobs().div_ceil(SINGLE_SHARE)).await?,
            bench::claim_and_settle(&bed, args.jobs()).await?,
            bench::throughput(&bed, args.jobs()).await?,
        ];
        let mut added = Vec::with_capacity(steps.len());
        for (step, figure) in steps.into_iter().enumerate() {
            let of = redis.as_ref().and_then(|redis| redis.get(step));
            added.push(figures.add(match of {
                Some(of) => figure.rate_of(of, "redis"),
                None => figure,
            })?);
        }
        redis.get_or_insert(added);
    }
    Ok(())
}

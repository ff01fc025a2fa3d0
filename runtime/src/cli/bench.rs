//! `gristmill bench`: figures.

use std::path::PathBuf;
use std::time::Duration;

use super::exit::{Exit, Usage};
use super::global::Global;
use super::table::Table;
use super::{sandbox, screen};
use crate::bench::{self, BenchStore, Figure, Rig, RigSettings};
use crate::config::StoreAddress;
use crate::store::embedded::Durability;
use crate::wasm::Sandbox;

/// Measure throughput, latency and lateness; compare the stores
///
/// A runner in this process works on a store of its own: an embedded one in a temporary folder (TMPDIR says where), a
/// private redis-server, which must be installed, or the Redis that --store names, under keys of its own. Other work on
/// the machine moves the figures: compare what one run prints with each other.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gristmill bench
  gristmill bench stores                     # embedded beside Redis, step by step
  gristmill bench throughput --on redis --jobs 500000 --concurrency 500
  gristmill bench latency --json --store redis://127.0.0.1:6379/0")]
pub(super) struct Args {
    /// What to measure [default: throughput, latency, lateness]
    #[arg(value_enum)]
    scenarios: Vec<Scenario>,
    /// The store to measure, where the options name none with --store
    #[arg(long, value_enum, default_value_t = On::Embedded, value_name = "STORE")]
    on: On,
    /// Jobs of a throughput run
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    jobs: usize,
    /// Attempts at once
    #[arg(long, default_value_t = 500, value_name = "N")]
    concurrency: u32,
    /// Threads that run handlers
    #[arg(long, default_value_t = 2, value_name = "N")]
    threads: usize,
    /// Bytes of each job's body
    #[arg(long, default_value_t = 200, value_name = "N")]
    payload: usize,
    /// The component to run
    #[arg(long, default_value = "handlers/echo.wasm", value_name = "FILE")]
    handler: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Scenario {
    /// A full queue is worked off
    Throughput,
    /// From push to the start of the handler, on an idle runner
    Latency,
    /// From due to the start of the handler: 500 jobs over 10 s, 10,000 in one second
    Lateness,
    /// Push, claim and settle, and throughput, on a private Redis and on the embedded store
    Stores,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum On {
    /// The default store: each commit waits for the disk
    Embedded,
    /// The same with `durability = "process"`
    EmbeddedProcess,
    /// A private redis-server
    Redis,
}

impl From<On> for BenchStore {
    fn from(on: On) -> Self {
        match on {
            On::Embedded => Self::Embedded(Durability::Power),
            On::EmbeddedProcess => Self::Embedded(Durability::Process),
            On::Redis => Self::PrivateRedis,
        }
    }
}

pub(super) async fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    let manifest = global.manifest_without_secrets()?;
    let sandbox = Sandbox::new(&sandbox::settings(&manifest, args.concurrency)?)?;
    let settings = RigSettings {
        handler: args.handler.clone(),
        store: redis(global)?.map_or(args.on.into(), BenchStore::RedisAt),
        concurrency: args.concurrency as usize,
        threads: args.threads,
        payload_bytes: args.payload,
    };
    let mut figures = Vec::new();
    let mut early = 0;
    if args.scenarios != [Scenario::Stores] {
        let rig = Rig::new(settings.clone(), &sandbox).await?;
        early = measure(global, &args, &rig, &mut figures).await?;
    }
    if args.scenarios.contains(&Scenario::Stores) {
        compare(global, &args, &settings, &sandbox, &mut figures).await?;
    }
    if !global.json {
        table(&figures).print()?;
    }
    anyhow::ensure!(early == 0, "{early} jobs started before they were due: this is a fault of the queue");
    Ok(Exit::Done)
}

/// What a runner does on one store. Tells how many jobs started early.
async fn measure(global: &Global, args: &Args, rig: &Rig, figures: &mut Vec<Figure>) -> anyhow::Result<usize> {
    let wanted = |scenario| args.scenarios.is_empty() || args.scenarios.contains(&scenario);
    let mut early = 0;
    if wanted(Scenario::Throughput) {
        figures.push(say(global, bench::throughput(rig, args.jobs).await?)?);
    }
    if wanted(Scenario::Latency) {
        figures.push(say(global, bench::latency(rig, 2_000).await?)?);
    }
    if wanted(Scenario::Lateness) {
        for (jobs, over) in [(500, Duration::from_secs(10)), (10_000, Duration::from_secs(1))] {
            let (figure, too_early) = bench::lateness(rig, jobs, over).await?;
            figures.push(say(global, figure)?);
            early += too_early;
        }
    }
    Ok(early)
}

/// The same work on each kind of store, one store after the other.
async fn compare(
    global: &Global,
    args: &Args,
    settings: &RigSettings,
    sandbox: &Sandbox,
    figures: &mut Vec<Figure>,
) -> anyhow::Result<()> {
    /// Single pushes wait for the disk each: fewer of them say as much.
    const SINGLE_SHARE: usize = 5;
    for on in [On::Redis, On::EmbeddedProcess, On::Embedded] {
        let rig = Rig::new(RigSettings { store: on.into(), ..settings.clone() }, sandbox).await?;
        figures.push(say(global, bench::push(&rig, args.jobs).await?)?);
        figures.push(say(global, bench::push_singly(&rig, args.jobs.div_ceil(SINGLE_SHARE)).await?)?);
        figures.push(say(global, bench::claim_and_settle(&rig, args.jobs).await?)?);
        figures.push(say(global, bench::throughput(&rig, args.jobs).await?)?);
    }
    Ok(())
}

/// The Redis to measure, if the options name one.
fn redis(global: &Global) -> Result<Option<String>, Usage> {
    match global.named_store()? {
        None => Ok(None),
        Some(StoreAddress::Redis(url)) => Ok(Some(url)),
        Some(address) => {
            Err(Usage(format!("`bench` works on stores of its own or on a Redis, and {address} is none: see --on")))
        }
    }
}

/// With --json each figure is printed as it comes.
fn say(global: &Global, figure: Figure) -> anyhow::Result<Figure> {
    if global.json {
        screen::document(&serde_json::to_value(&figure)?)?;
    } else {
        screen::note(&format!("{}, {}: {} jobs done", figure.store, figure.scenario, figure.jobs));
    }
    Ok(figure)
}

fn table(figures: &[Figure]) -> Table {
    let columns =
        ["SCENARIO", "STORE", ">JOBS", ">JOBS/S", ">RUNNER CPU/JOB", ">STORE CPU/JOB", ">P50", ">P99", ">MAX"];
    let mut table = Table::new(&columns);
    let micros = |value: Option<f64>| value.map(|us| format!("{us:.1} µs")).unwrap_or_default();
    let millis = |us: u64| format!("{:.2} ms", us as f64 / 1000.0);
    for figure in figures {
        let delay =
            |of: fn(&bench::Spread) -> u64| figure.delay.as_ref().map(|spread| millis(of(spread))).unwrap_or_default();
        table.row(vec![
            figure.scenario.to_owned(),
            figure.store.clone(),
            figure.jobs.to_string(),
            figure.jobs_per_second.map(|rate| format!("{rate:.0}")).unwrap_or_default(),
            micros(figure.runner_cpu_us_per_job),
            micros(figure.store_cpu_us_per_job),
            delay(|spread| spread.p50_us),
            delay(|spread| spread.p99_us),
            delay(|spread| spread.max_us),
        ]);
    }
    table
}

//! The command line of `gristmill-bench`.

mod components;
mod measure;
mod print;
mod show;
mod svg;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;

use crate::{BenchSettings, BenchStore, Progress};
use gristmill_sandbox::{ChildLimits, CompilerProcess, CompilerSettings, SandboxSettings, compile_child};
use gristmill_store::embedded::Durability;

/// The address space of the compiler, a child process of this program: that of `gristmill run` by default.
const COMPILER_BYTES: u64 = 2 << 30;

/// Measure throughput, latency, lateness, and what else speed is made of
///
/// A runner in this process works on a store of its own: an embedded one in a temporary folder (TMPDIR says where), a
/// private redis-server, which must be installed, or the Redis that --store names, under keys of its own. Other work on
/// the machine moves the figures: compare what one run prints with each other.
#[derive(Debug, clap::Parser)]
#[command(
    name = "gristmill-bench",
    version,
    after_help = "\
Examples:
  gristmill-bench
  gristmill-bench floor throughput --on redis     # and what share of the bare Redis that is
  gristmill-bench stores                          # embedded beside Redis, step by step
  gristmill-bench latency --json --store redis://127.0.0.1:6379/0
  gristmill-bench stores --svg stores.svg         # and a picture of the figures
  gristmill-bench reuse --handler mine.wasm --data '{\"email\":\"ada@example.com\"}'
  gristmill-bench components handlers/*.wasm      # each by itself: start, call, fuel, memory
  gristmill-bench all --on redis                  # everything, some ten minutes"
)]
#[command(args_conflicts_with_subcommands = true)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    scenarios: ScenarioArgs,
    /// Write one JSON document per line, for programs
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Components(components::Args),
}

#[derive(Debug, clap::Args)]
struct ScenarioArgs {
    /// What to measure [default: product, throughput, latency, lateness]
    #[arg(value_enum)]
    scenarios: Vec<Scenario>,
    /// The Redis to measure, by its URL
    #[arg(long, value_name = "URL", conflicts_with = "on")]
    store: Option<String>,
    /// The store to measure
    #[arg(long, value_enum, default_value_t = On::Embedded, value_name = "STORE")]
    on: On,
    /// Jobs of a throughput run; what is called large is ten times that
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u32).range(100..))]
    jobs: u32,
    /// Attempts at once
    #[arg(long, default_value_t = 500, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: u32,
    /// Threads that run handlers
    #[arg(long, default_value_t = 2, value_name = "N")]
    threads: usize,
    /// Bytes of each job's body
    #[arg(long, default_value_t = 200, value_name = "N")]
    payload: usize,
    /// The body itself, for a component that takes no other [default: letters]
    #[arg(long, value_name = "TEXT", conflicts_with = "payload")]
    data: Option<String>,
    /// Components of the scenario `start` [default: 100]
    #[arg(long, value_name = "N")]
    components: Option<usize>,
    /// Write every attempt down in a journal, to see what that costs
    #[arg(long)]
    journal: bool,
    /// Write the figures as bar charts into this file as well
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// The component to run
    #[arg(long, default_value = "handlers/echo.wasm", value_name = "FILE")]
    handler: PathBuf,
    /// The program `gristmill`, for http and screens [default: the one beside this program]
    #[arg(long, value_name = "FILE")]
    gristmill: Option<PathBuf>,
    /// The component that makes photos smaller, for compute
    #[arg(long, default_value = "handlers/resize-image.wasm", value_name = "FILE")]
    resize: PathBuf,
    /// The component that waits and computes, for isolation and memory
    #[arg(long, default_value = "handlers/simulate.wasm", value_name = "FILE")]
    simulate: PathBuf,
}

/// In the order in which they are measured: memory first, because what was used once is seldom given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Scenario {
    /// All of them
    All,
    /// Memory of an idle runner, of a loaded component, of an attempt, of a delayed job
    Memory,
    /// The limits: bare Redis primitives, and a bare loop of instantiate and call
    Floor,
    /// A full queue is worked off by the whole product, as a program embeds it, with a component and with a native handler
    Product,
    /// The same by a runner alone
    Throughput,
    /// From push to the start of the handler, on an idle runner
    Latency,
    /// From due to the start of the handler: 500 jobs over 10 s, 10,000 in one second
    Lateness,
    /// Throughput with much of something: backlog, topics, delayed jobs
    Scaling,
    /// A fast topic's latency alone, beside a tenant that floods all slots, beside handlers that wait, and beside some that keep a CPU busy
    Isolation,
    /// 200 photos that all are ready at once, with the default `concurrency` and with one slot for each thread; and the latency of a short job beside them
    Compute,
    /// What 1, 10 and 50 idle runners cost a Redis: by themselves, and with each single job
    Herd,
    /// What a job costs a Redis when 1, 10 and 50 runners share 20,000 jobs a second, and what runners cost it that have none
    #[value(name = "fleet")]
    Shared,
    /// A full queue of 12 tenants on one redis-server, and on a cluster of three
    Cluster,
    /// From the rename of a new component to its first job
    Reload,
    /// From nothing to a runner with many components, and what it holds for them
    Start,
    /// Throughput with a fresh instance for each job, and with instances that do a thousand (`reuse`)
    Reuse,
    /// Push, claim and settle, and throughput, on a private Redis and on the embedded store
    Stores,
    /// Claim and settle: plain jobs, and jobs with a result, a follow-up job and a unique value
    Mixed,
    /// A full queue of jobs without keys, and of jobs of which 100 share a key and run one at a time, on three runners (a file has one)
    Keys,
    /// Push, claim and settle: plain jobs, and as many that are members of batches of 10,000
    Batch,
    /// A topic with a rate of 1,000 jobs a second, on three runners: how many start in each second
    Rate,
    /// From the tick of a schedule to the start of its job: 50 schedules of a second, on ten runners
    Ticks,
    /// What of a runner each of several tenants gets, by the fuel of its jobs, beside what its weight says
    Shares,
    /// A full queue without traces, with 1 % of the attempts kept and with all, whose spans go to a receiver in this process
    Traces,
    /// A full queue while no browser has the page open, and while it is open on ten screens
    Screens,
    /// Pushes over HTTP: one by one on 16 connections, and 1,000 a request; the runner's CPU is the server's
    Http,
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

impl ScenarioArgs {
    fn wants(&self, scenario: Scenario) -> bool {
        const USUAL: [Scenario; 4] = [Scenario::Product, Scenario::Throughput, Scenario::Latency, Scenario::Lateness];
        let named: &[Scenario] = if self.scenarios.is_empty() { &USUAL } else { &self.scenarios };
        named.contains(&scenario) || named.contains(&Scenario::All)
    }

    fn body(&self) -> Vec<u8> {
        self.data.as_ref().map_or_else(|| vec![b'x'; self.payload], |data| data.clone().into_bytes())
    }

    fn bench_settings(&self, json: bool) -> BenchSettings {
        BenchSettings {
            handler: self.handler.clone(),
            simulate: self.simulate.clone(),
            gristmill: self.gristmill.clone().unwrap_or_else(beside_this_program),
            store: self.store.clone().map_or(self.on.into(), BenchStore::RedisAt),
            concurrency: self.concurrency as usize,
            threads: self.threads,
            body: self.body().into(),
            journal: self.journal,
            progress: progress(json),
        }
    }
}

fn beside_this_program() -> PathBuf {
    std::env::current_exe().unwrap_or_default().with_file_name("gristmill")
}

/// Runs the program. It is the compiler of its components, too.
pub fn main() -> ExitCode {
    if let Some(limits) = ChildLimits::of_arguments() {
        return compile_child(limits);
    }
    let args = Args::parse();
    let ended = tokio::runtime::Runtime::new().map_err(Into::into).and_then(|runtime| runtime.block_on(run(args)));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            writeln!(std::io::stderr(), "error: {error:#}").ok();
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> anyhow::Result<()> {
    // Components that only a measurement needs must not push others out of the user's cache.
    let cache = tempfile::TempDir::with_prefix("gristmill-bench-").context("failed to make a temporary folder")?;
    let sandbox = SandboxSettings {
        concurrency: if args.command.is_some() { 1 } else { args.scenarios.concurrency },
        cache: cache.path().to_owned(),
        compiler: compiler()?,
    };
    match args.command {
        Some(Command::Components(components)) => components::run(components, &sandbox, args.json).await,
        None => run_scenarios(args.scenarios, &sandbox, args.json).await,
    }
}

fn compiler() -> anyhow::Result<CompilerSettings> {
    let program = std::env::current_exe().context("failed to find this program's own file, which is the compiler")?;
    let process = CompilerProcess::Child { program, memory_bytes: COMPILER_BYTES };
    Ok(CompilerSettings { process, ..CompilerSettings::default() })
}

fn progress(json: bool) -> Progress {
    if !json && std::io::stderr().is_terminal() { Progress::shown() } else { Progress::hidden() }
}

async fn run_scenarios(args: ScenarioArgs, sandbox: &SandboxSettings, json: bool) -> anyhow::Result<()> {
    let mut figures = show::Figures::new(json, args.svg.as_deref())?;
    let faults = measure::measure(&args, &args.bench_settings(json), sandbox, &mut figures).await?;
    anyhow::ensure!(
        faults == 0,
        "{faults} jobs started before they were due, twice for one tick, or out of the order of their key: this is a fault of the queue"
    );
    Ok(())
}

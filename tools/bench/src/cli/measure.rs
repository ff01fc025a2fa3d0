//! Which scenario measures what, with how many jobs, and what it is compared with.

use std::time::Duration;

use clap::ValueEnum;

use super::show::Figures;
use super::{On, Scenario, ScenarioArgs};
use crate::{self as bench, BenchSettings, BenchStore, Figure, Neighbour, TenantLoad, TestBed};
use gristmill_sandbox::{Sandbox, SandboxSettings};

/// Measures each scenario that the arguments name; returns how many jobs started early, twice for one tick, or out of the
/// order of their key.
///
/// # Errors
/// A scenario fails, or a figure cannot be printed.
pub(super) async fn measure(
    args: &ScenarioArgs,
    settings: &BenchSettings,
    pool: &SandboxSettings,
    figures: &mut Figures,
) -> anyhow::Result<usize> {
    let wanted: Vec<_> = Scenario::value_variants().iter().filter(|scenario| args.wants(**scenario)).collect();
    let mut measure = Measure { args, settings, pool, figures, sandbox: None, bare_redis: None, faults: 0 };
    for scenario in wanted {
        measure.scenario(*scenario).await?;
    }
    measure.figures.print()?;
    Ok(measure.faults)
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

/// One run of `gristmill-bench`.
struct Measure<'a> {
    args: &'a ScenarioArgs,
    settings: &'a BenchSettings,
    pool: &'a SandboxSettings,
    figures: &'a mut Figures,
    /// Created by the first scenario that needs it: `memory` measures what a process has without it.
    sandbox: Option<Sandbox>,
    /// What `throughput` is compared with.
    bare_redis: Option<Figure>,
    /// Jobs that started before they were due, twice for one tick of a schedule, or out of the order of their key.
    faults: usize,
}

impl Measure<'_> {
    async fn scenario(&mut self, scenario: Scenario) -> anyhow::Result<()> {
        let (args, jobs) = (self.args, self.args.jobs());
        match scenario {
            Scenario::All => {}
            Scenario::Memory => self.memory().await?,
            Scenario::Floor => self.floor().await?,
            Scenario::Product => {
                let [component, native] = bench::product(&self.bed().await?, jobs).await?;
                let component = self.add(component)?;
                self.add(native.rate_of(&component, "a component"))?;
            }
            Scenario::Throughput => {
                let figure = bench::throughput(&self.bed().await?, jobs).await?;
                self.add(match &self.bare_redis {
                    Some(bare) => figure.rate_of(bare, "bare Redis"),
                    None => figure,
                })?;
            }
            Scenario::Latency => {
                let figure = bench::latency(&self.bed().await?, args.some()).await?;
                self.add(figure)?;
            }
            Scenario::Lateness => self.lateness().await?,
            Scenario::Scaling => self.scaling().await?,
            Scenario::Isolation => self.isolation().await?,
            Scenario::Compute => self.compute().await?,
            Scenario::Herd => self.herd().await?,
            Scenario::Shared => self.shared().await?,
            Scenario::Cluster => self.cluster().await?,
            Scenario::Reload => {
                let (bed, sandbox) = (self.bed().await?, self.sandbox()?);
                for compiled in [true, false] {
                    self.add(bench::reload(&bed, &sandbox, compiled, args.few()).await?)?;
                }
            }
            Scenario::Start => {
                let components = args.components.unwrap_or(5 * args.few());
                for figure in bench::start(&self.bed().await?, self.pool, components, args.few().min(5)).await? {
                    self.add(figure)?;
                }
            }
            Scenario::Reuse => {
                let bed = self.bed().await?;
                let fresh = self.add(bench::reuse(&bed, jobs, 1).await?)?;
                self.add(bench::reuse(&bed, jobs, 1000).await?.rate_of(&fresh, "fresh"))?;
            }
            Scenario::Stores => self.stores().await?,
            Scenario::Mixed => {
                let bed = self.bed().await?;
                let plain = self.add(bench::claim_and_settle(&bed, jobs).await?)?;
                self.add(bench::mixed(&bed, jobs).await?.store_cpu_of(&plain, "plain"))?;
            }
            Scenario::Keys => {
                let (plain, _) = bench::keys(&self.bed().await?, jobs, false).await?;
                let plain = self.add(plain)?;
                let (keyed, faults) = bench::keys(&self.bed().await?, jobs, true).await?;
                self.add(keyed.rate_of(&plain, "without keys"))?;
                self.faults += faults;
            }
            Scenario::Batch => {
                let members = jobs.min(10_000);
                for figure in bench::batch(&self.bed().await?, members, jobs / members).await? {
                    self.add(figure)?;
                }
            }
            Scenario::Rate => {
                let figure = bench::rate(&self.bed_of_many().await?, 3 * args.few()).await?;
                self.add(figure)?;
            }
            Scenario::Ticks => {
                let (figure, faults) = bench::ticks(&self.bed_of_many().await?, args.some() / 2).await?;
                self.add(figure)?;
                self.faults += faults;
            }
            Scenario::Shares => self.shares().await?,
            Scenario::Traces => {
                for figure in bench::traces(&mut self.bed().await?, jobs).await? {
                    self.add(figure)?;
                }
            }
            Scenario::Screens => {
                let settings = BenchSettings { store: self.redis(), ..self.settings.clone() };
                let bed = TestBed::new(settings, &self.sandbox()?).await?;
                for figure in bench::screens(&bed, jobs).await? {
                    self.add(figure)?;
                }
            }
            Scenario::Http => {
                for figure in bench::pushes_over_http(&self.bed().await?, jobs).await? {
                    self.add(figure)?;
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, figure: Figure) -> anyhow::Result<Figure> {
        self.figures.add(figure)
    }

    fn sandbox(&mut self) -> anyhow::Result<Sandbox> {
        if self.sandbox.is_none() {
            self.sandbox = Some(Sandbox::new(self.pool)?);
        }
        self.sandbox.clone().ok_or_else(|| anyhow::anyhow!("there is no sandbox"))
    }

    /// A test bed with an empty store.
    async fn bed(&mut self) -> anyhow::Result<TestBed> {
        TestBed::new(self.settings.clone(), &self.sandbox()?).await
    }

    /// What is kept in memory for each of many things; attempts a thousand at once.
    async fn memory(&mut self) -> anyhow::Result<()> {
        let attempts = self.args.jobs.min(1_000);
        let sandbox = Sandbox::new(&SandboxSettings { concurrency: attempts, ..self.pool.clone() })?;
        let settings = BenchSettings { concurrency: attempts as usize, ..self.settings.clone() };
        let bed = TestBed::new(settings, &sandbox).await?;
        let figures = bench::runner_memory(&bed, &sandbox).await?;
        for figure in figures.into_iter().chain(bench::store_memory(&bed, self.args.jobs()).await?) {
            self.add(figure)?;
        }
        Ok(())
    }

    async fn floor(&mut self) -> anyhow::Result<()> {
        let bed = self.bed().await?;
        self.add(bench::sandbox_floor(&bed, self.args.jobs() / 5).await?)?;
        if self.settings.store.is_redis() {
            self.bare_redis = Some(self.add(bench::redis_floor(&bed, self.args.jobs()).await?)?);
        }
        Ok(())
    }

    async fn lateness(&mut self) -> anyhow::Result<()> {
        let (bed, all) = (self.bed().await?, self.args.jobs());
        let trickle = if all < 10_000 { (50, 1) } else { (500, 10) };
        for (jobs, seconds) in [trickle, (all.min(10_000), 1)] {
            let (figure, early) = bench::lateness(&bed, jobs, Duration::from_secs(seconds)).await?;
            self.add(figure)?;
            self.faults += early;
        }
        Ok(())
    }

    async fn scaling(&mut self) -> anyhow::Result<()> {
        let jobs = self.args.jobs();
        let (little, much) = (jobs.min(1_000), 10 * jobs);
        self.compare([little, much], async |bed, waiting| bench::backlog(bed, waiting, jobs).await).await?;
        self.compare([1, little], async |bed, topics| bench::topics(bed, topics, jobs).await).await?;
        self.compare([little, much], async |bed, delayed| bench::delayed(bed, delayed, jobs).await).await
    }

    /// Measures a case with little and the same case with much right after it, which is compared with the first.
    async fn compare(
        &mut self,
        [little, much]: [usize; 2],
        measure: impl AsyncFn(&TestBed, usize) -> anyhow::Result<Figure>,
    ) -> anyhow::Result<()> {
        let few = measure(&self.bed().await?, little).await?;
        let few = self.add(few)?;
        let many = measure(&self.bed().await?, much).await?;
        self.add(many.rate_of(&few, &few.case))?;
        Ok(())
    }

    async fn isolation(&mut self) -> anyhow::Result<()> {
        let (bed, sandbox, args) = (self.bed().await?, self.sandbox()?, self.args);
        let mut alone: Option<Figure> = None;
        let neighbours = [
            Neighbour::None,
            Neighbour::Flooding(bed.settings.concurrency),
            Neighbour::Waiting,
            Neighbour::Computing(1),
            Neighbour::Computing(args.threads),
        ];
        for beside in neighbours {
            let figure = bench::isolation(&bed, &sandbox, beside, args.some() / 2).await?;
            let figure = self.add(match &alone {
                Some(alone) => figure.p99_of(alone, "p99 alone"),
                None => figure,
            })?;
            alone.get_or_insert(figure);
        }
        Ok(())
    }

    async fn compute(&mut self) -> anyhow::Result<()> {
        /// What a topic has by default.
        const CONCURRENCY: usize = 32;
        let (bed, sandbox, args) = (self.bed().await?, self.sandbox()?, self.args);
        self.add(bench::isolation(&bed, &sandbox, Neighbour::None, args.some() / 4).await?)?;
        let photos = args.some() / 10;
        let (slots, timeouts) = bench::compute(&bed, &sandbox, &args.resize, args.threads, photos).await?;
        let slots = self.add(slots)?;
        let (figure, more) = bench::compute(&bed, &sandbox, &args.resize, CONCURRENCY, photos).await?;
        self.add(figure.rate_of(&slots, "one slot for each thread"))?;
        anyhow::ensure!(timeouts + more == 0, "{} attempts ran out of time", timeouts + more);
        Ok(())
    }

    /// The Redis that was named, or a private one.
    fn redis(&self) -> BenchStore {
        if self.settings.store.is_redis() { self.settings.store.clone() } else { On::Redis.into() }
    }

    /// A test bed on a Redis, for many runners that share this process.
    async fn bed_of_many(&mut self) -> anyhow::Result<TestBed> {
        let settings = BenchSettings { store: self.redis(), concurrency: 10, threads: 1, ..self.settings.clone() };
        TestBed::new(settings, &self.sandbox()?).await
    }

    async fn shared(&mut self) -> anyhow::Result<()> {
        let bed = self.bed_of_many().await?;
        let jobs = self.args.jobs();
        self.add(bench::shared(&bed, 0, 1, jobs).await?)?;
        let mut one: Option<Figure> = None;
        for runners in bench::HERDS {
            let figure = bench::shared(&bed, runners, 1, jobs).await?;
            let figure = self.add(match &one {
                Some(one) => figure.store_cpu_of(one, "1 runner"),
                None => figure,
            })?;
            one.get_or_insert(figure);
        }
        let tenants = self.args.some() / 2;
        // An idle runner looks for jobs about once a second: 20 s, unless a tiny run is wanted.
        let lasting = Duration::from_millis(20 * tenants as u64);
        // Runners look after every tenant that has had jobs: those with one tenant come first.
        for (runners, tenants) in [(10, 1), (50, 1), (10, tenants)] {
            self.add(bench::idle(&bed, runners, tenants, lasting).await?)?;
        }
        for runners in [0, 10] {
            self.add(bench::shared(&bed, runners, tenants, jobs).await?)?;
        }
        Ok(())
    }

    async fn cluster(&mut self) -> anyhow::Result<()> {
        const TENANTS: usize = 12;
        let mut one: Option<Figure> = None;
        for servers in [1, 3] {
            let settings = BenchSettings { store: BenchStore::PrivateServers(servers), ..self.settings.clone() };
            let bed = TestBed::new(settings, &self.sandbox()?).await?;
            let figure = bench::tenants(&bed, TENANTS, self.args.jobs()).await?;
            let figure = self.add(match &one {
                Some(one) => figure.cpu_of(one, "one server"),
                None => figure,
            })?;
            one.get_or_insert(figure);
        }
        Ok(())
    }

    async fn herd(&mut self) -> anyhow::Result<()> {
        let bed = self.bed_of_many().await?;
        let jobs = self.args.some() / 2;
        let mut one: Vec<Figure> = Vec::new();
        for runners in bench::HERDS {
            for (case, figure) in bench::herd(&bed, runners, jobs).await?.into_iter().enumerate() {
                match one.get(case) {
                    Some(of) => drop(self.add(figure.store_cpu_of(of, "1 runner"))?),
                    None => one.push(self.add(figure)?),
                }
            }
        }
        for tenants in [1, jobs] {
            let figure = bench::idle(&bed, 1, tenants, Duration::from_millis(10 * jobs as u64)).await?;
            self.add(figure)?;
        }
        Ok(())
    }

    async fn shares(&mut self) -> anyhow::Result<()> {
        let bed = self.bed().await?;
        let load = |weight, topics, jobs| TenantLoad { weight, topics, jobs };
        let cases = [
            ("jobs 100 : 1", vec![load(1, 1, 1), load(1, 1, 100)]),
            ("topics 100 : 1", vec![load(1, 1, 1), load(1, 100, 1)]),
            ("weights 3 : 1", vec![load(3, 1, 3), load(1, 1, 1)]),
            ("20 tenants", (1..=20).map(|number| load(1, number, 1 + number % 3)).collect()),
        ];
        for (case, loads) in cases {
            self.add(bench::shares(&bed, case, &loads, self.args.some()).await?)?;
        }
        Ok(())
    }

    /// The same work on each kind of store, one store after the other.
    async fn stores(&mut self) -> anyhow::Result<()> {
        /// Single pushes wait for the disk each: fewer of them say as much.
        const SINGLE_SHARE: usize = 5;
        let jobs = self.args.jobs();
        let mut redis: Vec<Figure> = Vec::new();
        for on in [On::Redis, On::EmbeddedProcess, On::Embedded] {
            let settings = BenchSettings { store: on.into(), ..self.settings.clone() };
            let bed = TestBed::new(settings, &self.sandbox()?).await?;
            let steps = [
                bench::push(&bed, jobs).await?,
                bench::push_singly(&bed, jobs.div_ceil(SINGLE_SHARE)).await?,
                bench::claim_and_settle(&bed, jobs).await?,
                bench::throughput(&bed, jobs).await?,
            ];
            for (step, figure) in steps.into_iter().enumerate() {
                match redis.get(step) {
                    Some(of) => drop(self.figures.add(figure.rate_of(of, "redis"))?),
                    None => redis.push(self.figures.add(figure)?),
                }
            }
        }
        Ok(())
    }
}

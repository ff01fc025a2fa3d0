//! A topic as commands show it: its jobs, what does them, and why nothing does.
//!
//! A server says what serves. Without one, it is the manifest and the files in the handlers folder that say what would.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::global::Global;
use super::stats::OfTenants;
use super::store::Reached;
use super::{document, folder, screen, stats, why};
use gristmill_config::{KnownTopics, Manifest, units};
use gristmill_core::job::{Name, TopicId};
use gristmill_core::time::Timestamp;
use gristmill_core::topic::{Demands, Topic};
use gristmill_runner::RunTimes;
use gristmill_runner::why::{IdleReason, Runners, Served, idle};
use gristmill_sandbox::Version;
use gristmill_server::{RecentByVersion, RecentOfVersion, RemoteStore, TopicLimits, TopicSeen, TopicTrial};
use gristmill_store::{Produce, StoreError, TopicCounts};

/// Without a server the list says nothing of runners.
const ONE_RUNNER: Runners = Runners { alive: 1, others: 0 };

/// The versions of the components in the handlers folder, and what each needs.
type Files = BTreeMap<Name, (Version, Demands)>;

/// A topic with its jobs and its handler.
#[derive(Debug, Clone)]
pub(super) struct TopicLine {
    pub(super) seen: TopicSeen,
    /// `manifest`, `folder` or `store`. `None`: only the server's manifest knows.
    origin: Option<&'static str>,
    /// A server reported this. Else it is about the files in the folder.
    serves: bool,
}

/// Where topics are read.
#[derive(Debug)]
pub(super) enum Topics {
    /// A server knows what serves.
    Server {
        server: RemoteStore,
        /// That of the server, if this machine has it.
        manifest: Option<Manifest>,
    },
    /// The manifest and the files say what would serve. There may be no store yet.
    Files { store: Option<Arc<dyn Produce>>, manifest: Manifest, files: Files },
}

impl Topics {
    /// By the server if one answers: that of the store, or of a Redis the one which listens where the manifest says.
    ///
    /// # Errors
    /// The handlers folder cannot be read.
    pub(super) async fn find(global: &Global, manifest: &Manifest, reached: Option<&Reached>) -> anyhow::Result<Self> {
        let server = match reached.and_then(|reached| reached.server.clone()) {
            Some(server) => Some(server),
            None => local_server(global, manifest).await?,
        };
        if let Some(server) = server {
            let manifest = (!global.names_server()).then(|| manifest.clone());
            return Ok(Self::Server { server, manifest });
        }
        let store = reached.map(|reached| reached.store.clone());
        Ok(Self::Files { store, manifest: manifest.clone(), files: files(manifest)? })
    }

    /// Whether all tenants are known to be in one store.
    pub(super) fn are_together(&self) -> bool {
        match self {
            Self::Server { manifest, .. } => manifest.as_ref().is_some_and(Manifest::keeps_tenants_together),
            Self::Files { manifest, .. } => manifest.keeps_tenants_together(),
        }
    }

    /// The topics of these tenants. Those of a store that is unavailable are missing.
    ///
    /// # Errors
    /// The store refuses, or is unavailable for each of the tenants.
    pub(super) async fn of(&self, tenants: &[Name]) -> anyhow::Result<OfTenants<TopicLine>> {
        let together = self.are_together();
        match self {
            Self::Server { server, manifest } => {
                let line = |topic| TopicLine::seen(topic, manifest.as_ref());
                OfTenants::ask(tenants, together, async |tenant| {
                    let topics = server.topics(tenant).await?;
                    Ok::<_, StoreError>(topics.into_iter().map(line).collect())
                })
                .await
            }
            Self::Files { store, manifest, files } => {
                let OfTenants { read: counts, missing } = match store {
                    Some(store) => OfTenants::ask(tenants, together, async |tenant| store.counts(tenant).await).await?,
                    None => OfTenants::default(),
                };
                let is_read = |tenant: &Name| !missing.as_ref().is_some_and(|missing| missing.contains(tenant));
                let mut lines = of_files(manifest, files, counts);
                lines.retain(|line| {
                    let tenant = &line.seen.counts.topic.tenant;
                    tenants.contains(tenant) && is_read(tenant)
                });
                Ok(OfTenants { read: lines, missing })
            }
        }
    }
}

/// A server of this machine that has the store, and shows it.
async fn local_server(global: &Global, manifest: &Manifest) -> anyhow::Result<Option<RemoteStore>> {
    match global.way(manifest)?.find_server().await {
        Ok(server) => Ok(server),
        Err(StoreError::Refused { store, doing: "say who it is", source }) => {
            screen::note(&format!("note: the server at {store} is not asked: {source:#}"));
            Ok(None)
        }
        Err(error) => {
            screen::note(&format!("note: the server is not asked: {error}"));
            Ok(None)
        }
    }
}

/// Of each component in the folder, its version and what it needs.
fn files(manifest: &Manifest) -> anyhow::Result<Files> {
    let mut versions = Files::new();
    for found in folder::scan(&manifest.handlers)? {
        match (&found.name, found.version(manifest.handlers.component_bytes)) {
            (Ok(name), Ok(version)) => _ = versions.insert(name.clone(), version),
            // `check` says more.
            (Err(problem), _) => screen::note(&format!("note: {}: {problem}", found.path.display())),
            (_, Err(problem)) => screen::note(&format!("note: {}: {problem:#}", found.path.display())),
        }
    }
    Ok(versions)
}

fn of_files(manifest: &Manifest, files: &Files, counts: Vec<TopicCounts>) -> Vec<TopicLine> {
    let mut counts: BTreeMap<TopicId, TopicCounts> =
        counts.into_iter().map(|line| (line.topic.clone(), line)).collect();
    let auto = files.keys().filter(|name| manifest.makes_topic(name)).map(|name| manifest.auto_topic(name).id);
    let auto: BTreeSet<TopicId> = auto.collect();
    let known_topics = KnownTopics::new(manifest, Some(auto.iter().map(|id| &id.topic)));
    let ids: BTreeSet<TopicId> = manifest.topics.keys().chain(&auto).chain(counts.keys()).cloned().collect();
    let line = |id: TopicId| {
        let counts = counts.remove(&id).unwrap_or_else(|| TopicCounts::none(id.clone()));
        match manifest.topics.get(&id) {
            Some(topic) => TopicLine::of_file(topic, "manifest", files, counts, None),
            None if auto.contains(&id) => {
                TopicLine::of_file(&manifest.auto_topic(&id.topic), "folder", files, counts, None)
            }
            None => {
                let used_by = known_topics.used_by(&id).cloned();
                let topic = Topic { id, ..manifest.auto_topic(&counts.topic.topic) };
                TopicLine::of_file(&topic, "store", files, counts, used_by)
            }
        }
    };
    ids.into_iter().map(line).collect()
}

impl TopicLine {
    fn seen(seen: TopicSeen, manifest: Option<&Manifest>) -> Self {
        let origin = match manifest {
            _ if seen.unknown => Some("store"),
            Some(manifest) if manifest.topics.contains_key(&seen.counts.topic) => Some("manifest"),
            Some(_) => Some("folder"),
            None => None,
        };
        Self { seen, origin, serves: true }
    }

    /// `used_by`: the topic whose section names the file that would make it one.
    fn of_file(
        topic: &Topic,
        origin: &'static str,
        files: &Files,
        counts: TopicCounts,
        used_by: Option<TopicId>,
    ) -> Self {
        let is_made = origin != "store";
        let file = files.get(&topic.handler).filter(|_| is_made && !topic.external);
        let demands = file.map(|(_, demands)| demands);
        let lacking = demands.map(|demands| topic.lacks(demands)).unwrap_or_default();
        let served =
            Served { serving: why::by_file(topic, is_made, used_by, demands), limits: topic.fleet, trial: None };
        let seen = TopicSeen {
            unknown: !is_made,
            handler: is_made.then(|| topic.handler.clone()),
            external: is_made && topic.external,
            version: file.map(|(version, _)| version.to_string()),
            lacking: lacking.iter().map(|lacking| lacking.name().to_owned()).collect(),
            refused: None,
            compiling: false,
            idle: idle(&counts, counts.running, &served, ONE_RUNNER),
            limits: is_made.then(|| TopicLimits::of(topic)),
            rates: None,
            trial: None,
            run: None,
            recent: None,
            counts,
        };
        Self { seen, origin: Some(origin), serves: false }
    }

    /// With what a person needs to know of it at once.
    pub(super) fn name(&self) -> String {
        stats::name(&self.seen.counts.topic, Some(&self.seen.counts))
            + if self.seen.unknown { " (unknown)" } else { "" }
    }

    /// The handler and its version.
    pub(super) fn handler(&self) -> String {
        match (&self.seen.handler, &self.seen.version) {
            (None, _) => "-".into(),
            (Some(handler), Some(version)) => format!("{handler} {version}"),
            (Some(_), None) if self.seen.external => "pull workers".into(),
            (Some(handler), None) if self.serves && !self.seen.counts.paused && !self.has_no_handler() => {
                format!("{handler} native")
            }
            (Some(handler), None)
                if self.seen.idle.as_ref().is_some_and(|idle| idle.reason == IdleReason::NoHandler) =>
            {
                format!("{handler} missing")
            }
            (Some(handler), None) => format!("{handler} -"),
        }
    }

    fn has_no_handler(&self) -> bool {
        use IdleReason::{Compiling, LacksGrants, NoHandler, NoHandlerHere, Refused, Starting};
        let without = [Starting, NoHandler, NoHandlerHere, Compiling, Refused, LacksGrants];
        self.seen.idle.as_ref().is_some_and(|idle| without.contains(&idle.reason))
    }

    /// How long the oldest ready job has been ready.
    pub(super) fn oldest(&self, now: Timestamp) -> String {
        self.seen.counts.oldest_ready.map(|since| units::about_duration(now.since(since))).unwrap_or_default()
    }

    /// How long half of the attempts run, and all but one of a hundred.
    pub(super) fn run_times(&self) -> [String; 2] {
        let about = |of: fn(&RunTimes) -> u64| {
            self.seen.run.as_ref().map_or_else(|| "-".into(), |run| about_duration(Duration::from_micros(of(run))))
        };
        [about(|run| run.p50_us), about(|run| run.p99_us)]
    }

    /// In words, why no further job is begun, or what is wrong although jobs are.
    pub(super) fn state(&self) -> String {
        let idle = self.seen.idle.as_ref().filter(|idle| idle.reason != IdleReason::Empty);
        let idle = idle.map(|idle| format!("{}: {}", <&str>::from(idle.reason), idle.detail));
        let mut said = self.failing().map(about_failing).into_iter().chain(idle).collect::<Vec<_>>().join("; ");
        let mut add = |text: String| {
            if !said.is_empty() {
                said.push_str("; ");
            }
            said.push_str(&text);
        };
        if self.has_no_handler() {
            return said;
        }
        if let Some(TopicTrial { version, share, .. }) = &self.seen.trial {
            add(format!("tries {version} on {share} of the jobs"));
        }
        if let Some(refused) = &self.seen.refused {
            add(format!("serves the version before: the file was refused: {refused}"));
        } else if !self.seen.lacking.is_empty() {
            add(format!("serves the version before: the file lacks {}", self.seen.lacking.join(", ")));
        } else if self.seen.compiling {
            add("serves the version before: the file is being compiled".into());
        }
        said
    }

    /// How long an attempt may run. `None`: a pull worker decides, or it is not known.
    #[cfg(feature = "top")]
    pub(super) fn timeout(&self) -> Option<Duration> {
        let limits = self.seen.limits.as_ref().filter(|_| !self.seen.external);
        Some(Duration::from_millis(limits?.timeout_ms))
    }

    /// What its attempts came to, if too many of them fail.
    fn failing(&self) -> Option<&RecentByVersion> {
        self.seen.recent.as_ref().filter(|recent| recent.failing)
    }

    /// Jobs wait and only a person can have them begun, attempts fail, or a file was refused.
    #[cfg(feature = "top")]
    pub(super) fn needs_a_person(&self) -> bool {
        let waits = self.seen.counts.ready > 0 && (self.has_no_handler() || self.seen.counts.paused);
        waits || self.failing().is_some() || self.seen.refused.is_some() || !self.seen.lacking.is_empty()
    }

    /// How much it asks to be looked at: how bad it is, and how many jobs that is about.
    #[cfg(feature = "top")]
    pub(super) fn attention(&self) -> (u8, u64) {
        let TopicCounts { ready, dead, .. } = self.seen.counts;
        let failed = self.failing().map_or(0, |recent| recent.serving.failed);
        if self.needs_a_person() { (2, ready.max(failed)) } else { (u8::from(dead > 0), dead) }
    }

    pub(super) fn document(&self) -> Value {
        let TopicSeen { counts, handler, external, limits, .. } = &self.seen;
        let mut fields = document::object(&self.seen);
        fields.retain(|name, _| !["limits", "rates"].contains(&name.as_str()));
        let limits = limits.as_ref();
        let rest = json!({
            "origin": self.origin,
            "external": handler.as_ref().map(|_| external),
            "serves": self.serves,
            "limited": counts.limited,
            "concurrency": limits.map(|limits| limits.concurrency),
            "timeout_ms": limits.map(|limits| limits.timeout_ms),
            "fuel": limits.map(|limits| limits.fuel),
            "memory_bytes": limits.map(|limits| limits.memory_bytes),
            "attempts_max": limits.map(|limits| limits.attempts),
        });
        fields.extend(document::object(&rest));
        fields.into()
    }
}

#[expect(clippy::cast_precision_loss, reason = "for the eye")]
fn about_failing(RecentByVersion { serving, before, .. }: &RecentByVersion) -> String {
    let share = |RecentOfVersion { attempts, failed, .. }: &RecentOfVersion| {
        let percent = *failed as f64 * 100.0 / (*attempts).max(1) as f64;
        if percent < 10.0 && *failed > 0 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
    };
    let attempts = units::grouped(serving.attempts);
    let version = serving.version.as_ref().map(|version| format!(", version {version}")).unwrap_or_default();
    let before = before.as_ref().map(|before| format!("; version before {}", share(before))).unwrap_or_default();
    format!("failing: {} of {attempts} attempts in the last minute{version}{before}", share(serving))
}

/// Also below a millisecond.
fn about_duration(duration: Duration) -> String {
    let micros = duration.as_micros();
    if micros < 1000 { format!("{micros}us") } else { units::about_duration(duration) }
}

/// A topic as a server shows it, for tests: `mail` with these fields besides.
#[cfg(test)]
pub(super) fn seen_with(fields: &Value) -> TopicLine {
    let mut whole = document::object(&TopicCounts::none("mail".parse().unwrap()));
    let usual =
        json!({ "unknown": false, "handler": "mail", "version": "9f2c", "lacking": [], "refused": null, "idle": null });
    whole.extend(document::object(&usual));
    whole.extend(document::object(fields));
    TopicLine::seen(serde_json::from_value(whole.into()).unwrap(), None)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn line(topic: Value) -> TopicLine {
        seen_with(&topic)
    }

    #[test]
    fn a_topic_is_listed_once_whichever_sides_know_it() {
        let manifest = Manifest::parse("[topics.a]\nhandler = \"echo\"", Path::new("gristmill.toml")).unwrap();
        let file = |name: &str| (name.parse().unwrap(), (Version([7; 32]), Demands::default()));
        let files = BTreeMap::from([file("echo"), file("mail")]);
        let counts = |topic: &str| TopicCounts { ready: 1, ..TopicCounts::none(topic.parse().unwrap()) };
        let lines = of_files(&manifest, &files, vec![counts("a"), counts("stray")]);
        let seen: Vec<_> = lines
            .iter()
            .map(|line| (line.seen.counts.topic.to_string(), line.origin, line.seen.version.is_some()))
            .collect();
        let expected = [("a", "manifest", true), ("mail", "folder", true), ("stray", "store", false)];
        assert_eq!(seen, expected.map(|(id, origin, version)| (id.to_owned(), Some(origin), version)));
    }

    #[test]
    fn a_topic_whose_file_was_refused_says_that_the_version_before_serves() {
        let serves = line(json!({ "refused": "it imports wasi:sockets" }));
        assert_eq!(serves.state(), "serves the version before: the file was refused: it imports wasi:sockets");
        assert_eq!(serves.handler(), "mail 9f2c");
        let idle = json!({ "reason": "refused", "detail": "mail.wasm was refused: it imports wasi:sockets" });
        let none = line(json!({ "version": null, "refused": "it imports wasi:sockets", "idle": idle }));
        assert_eq!(none.state(), "refused: mail.wasm was refused: it imports wasi:sockets");
        assert_eq!(none.handler(), "mail -");
        assert_eq!(line(json!({ "compiling": true })).state(), "serves the version before: the file is being compiled");
    }

    #[test]
    fn a_version_that_fails_is_said_with_the_one_before() {
        let of =
            |version: &str, attempts, failed| json!({ "version": version, "attempts": attempts, "failed": failed });
        let (serving, before) = (of("abc", 120, 116), of("def", 1000, 2));
        let idle = json!({ "reason": "paused", "detail": "resume it" });
        let failing = |failing| {
            let recent = json!({ "failing": failing, "serving": serving, "before": before });
            line(json!({ "recent": recent, "idle": idle })).state()
        };
        let said =
            "failing: 97 % of 120 attempts in the last minute, version abc; version before 0.2 %; paused: resume it";
        assert_eq!((failing(true).as_str(), failing(false).as_str()), (said, "paused: resume it"));
    }

    #[test]
    fn a_version_that_is_tried_is_named_beside_what_fails() {
        let trial = json!({ "version": "abc", "share": "5%", "since_ms": 1 });
        let tried = line(json!({ "trial": trial }));
        assert_eq!((tried.handler().as_str(), tried.state().as_str()), ("mail 9f2c", "tries abc on 5% of the jobs"));
        assert_eq!(tried.document()["trial"], trial);
        let serving = json!({ "version": "abc", "attempts": 4, "failed": 4 });
        let fails =
            line(json!({ "trial": trial, "recent": { "failing": true, "serving": serving, "before": null } })).state();
        let expected = "failing: 100 % of 4 attempts in the last minute, version abc; tries abc on 5% of the jobs";
        assert_eq!(fails, expected);
    }

    #[test]
    fn a_topic_without_jobs_has_nothing_to_say_and_a_paused_one_has() {
        assert_eq!(line(json!({ "idle": { "reason": "empty", "detail": "no job is ready" } })).state(), "");
        let paused = line(json!({ "idle": { "reason": "paused", "detail": "it is paused: resume it" } }));
        assert_eq!(paused.state(), "paused: it is paused: resume it");
        let run = json!({ "attempts": 3, "p50_us": 640, "p99_us": 2300 });
        assert_eq!(line(json!({ "run": run })).run_times(), ["640us", "2ms"]);
    }
}

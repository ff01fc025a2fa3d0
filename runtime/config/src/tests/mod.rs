//! Whole manifests: the good ones and what they come to, the bad ones and how they are shown.
//!
//! A bad manifest is `tests/NAME.toml`, its message `tests/NAME.txt`; `UPDATE_SNAPSHOTS=1` writes the messages anew.

mod schema;

use std::path::Path;
use std::time::Duration;

use super::ranges;
use super::{Durability, LineFileSettings, Listen, Manifest, ManifestError, StoreAddress, UnknownTopics};
use gristmill_core::http_grant::HttpGrant;
use gristmill_core::job::{Name, TopicId};
use gristmill_core::topic::{Adapter, Backoff, BackoffKind, CodeMeaning, Limits, RecordPolicy, Topic};

pub(super) fn parse(text: &str) -> Manifest {
    Manifest::parse(text, Path::new("/etc/gristmill/gristmill.toml")).unwrap_or_else(|error| panic!("{error}"))
}

fn id(text: &str) -> TopicId {
    text.parse().unwrap()
}

fn topic(text: &str) -> Topic {
    parse(text).topics.remove(&id("a")).unwrap()
}

fn topic_of(manifest: &Manifest, name: &str) -> Topic {
    manifest.topics[&id(name)].clone()
}

pub(super) fn problems(text: &str) -> String {
    Manifest::parse(text, Path::new("gristmill.toml")).unwrap_err().to_string()
}

#[test]
fn a_program_has_arguments_and_exit_codes() {
    let read = topic("[topics.a]\nadapter = \"command\"\nargs = [\"-v\"]\n[topics.a.exit-codes]\n3 = \"dead\"\n");
    let Adapter::Command(program) = read.adapter else { panic!("{read:?}") };
    assert_eq!(program.args, ["-v"]);
    assert_eq!(program.exit_codes, [(3, CodeMeaning::Dead)].into());
    assert_eq!(topic("[topics.a]").adapter, Adapter::Handler);
}

#[test]
fn bad_manifests_are_shown_as_in_the_snapshots() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests");
    let mut seen = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let shown = Manifest::parse(&text, Path::new(path.file_name().unwrap())).unwrap_err().to_string() + "\n";
        let snapshot = path.with_extension("txt");
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            std::fs::write(&snapshot, &shown).unwrap();
        }
        assert_eq!(shown, std::fs::read_to_string(&snapshot).unwrap_or_default(), "{}", snapshot.display());
        seen += 1;
    }
    assert!(seen >= 8, "the bad manifests are gone: {seen}");
}

#[test]
fn lmstfys_admin_api_is_off_and_leaves_this_machine_with_accounts_only() {
    let lmstfy = parse("").lmstfy;
    assert_eq!((lmstfy.enabled, lmstfy.admin, lmstfy.accounts.len()), (true, None, 0));
    assert_eq!(parse("[lmstfy]\nadmin = \"127.0.0.1:7778\"").lmstfy.admin, "127.0.0.1:7778".parse().ok());
    assert_eq!(parse("[lmstfy]\nenabled = false\nadmin = \"off\"").lmstfy.admin, None);
    let open = parse("[lmstfy]\nadmin = \"0.0.0.0:7778\"\n[lmstfy.accounts]\nann = { env = \"PATH\" }").lmstfy;
    assert_eq!(open.admin, "0.0.0.0:7778".parse().ok());
    let bad = problems("[lmstfy.accounts]\n\"a:b\" = { env = \"PATH\" }\n\"\" = { env = \"PATH\" }");
    assert!(bad.contains("`a:b` cannot be a user") && bad.contains("`` cannot be a user"), "{bad}");
    assert!(open.accounts["ann"].is(std::env::var("PATH").unwrap().as_bytes()) && !open.accounts["ann"].is(b"other"));
}

#[test]
fn an_empty_manifest_is_all_defaults() {
    let manifest = parse("");
    assert_eq!(manifest.server.concurrency, 256);
    assert_eq!(manifest.store.address, StoreAddress::File("/etc/gristmill/gristmill.db".into()));
    assert_eq!(manifest.http.listen, Listen::Usual);
    assert_eq!(manifest.handlers.folder, Path::new("/etc/gristmill/handlers"));
    assert!(manifest.topics.is_empty());
    let without = Manifest::default_at(Path::new("/etc/gristmill"));
    assert_eq!((manifest.server, manifest.store, manifest.handlers), (without.server, without.store, without.handlers));
}

#[test]
fn settings_of_the_runner_are_read() {
    let text = r#"
        server = { concurrency = 64, threads = 3, shutdown-grace = "1m30s", bill-retention = "90d", cache = "cache" }
        [store]
        url = "redis://:hunter2@db:6379/1"
        prefix = "jobs"
        [http]
        listen = "[::1]:8000"
        [handlers]
        folder = "/srv/handlers"
        auto-topics = false
        unknown-topics = "refuse"
        rescan = "500ms"
        component-limit = "10MB"
        compile-timeout = "2m"
        compile-memory = "1GiB"
    "#;
    let Manifest { server, store, http, handlers, .. } = parse(text);
    assert_eq!((server.concurrency, server.threads, server.shutdown_grace), (64, 3, Duration::from_secs(90)));
    assert_eq!(server.bill_retention, Duration::from_secs(90 * 86_400));
    assert_eq!(server.cache.as_deref(), Some(Path::new("/etc/gristmill/cache")));
    assert_eq!(store.address, StoreAddress::Redis("redis://:hunter2@db:6379/1".into()));
    assert_eq!((store.redis.prefix.as_str(), http.listen), ("jobs", Listen::At("[::1]:8000".parse().unwrap())));
    assert!(!format!("{store:?}").contains("hunter2"));
    assert_eq!((handlers.folder.as_path(), handlers.auto_topics), (Path::new("/srv/handlers"), false));
    assert_eq!(handlers.unknown_topics, UnknownTopics::Refuse);
    assert_eq!((handlers.rescan, handlers.component_bytes), (Duration::from_millis(500), 10_000_000));
    assert_eq!((handlers.compile_timeout, handlers.compile_memory_bytes), (Duration::from_secs(120), 1 << 30));
}

#[test]
fn a_journal_is_kept_where_the_manifest_says() {
    assert_eq!(parse("").journal, None);
    let usual = LineFileSettings::at("/etc/gristmill/journal.jsonl".into());
    assert_eq!(parse("[journal]\npath = \"journal.jsonl\"").journal, Some(usual));
    let all = "[journal]\npath = \"/var/log/mill.jsonl\"\nrotate-at = \"1MB\"\nkeep = 3";
    let path = "/var/log/mill.jsonl".into();
    assert_eq!(parse(all).journal, Some(LineFileSettings { path, rotate_bytes: 1_000_000, keep: 3 }));
    let audit = parse("[audit]\npath = \"audit.jsonl\"\nkeep = 3").audit;
    assert_eq!(audit, Some(LineFileSettings { keep: 3, ..LineFileSettings::at("/etc/gristmill/audit.jsonl".into()) }));
}

#[test]
fn every_key_of_a_topic_is_read() {
    let text = r#"
        [topics.a]
        handler = "echo"
        concurrency = 7
        reuse = 50
        fuel = "500M"
        memory = "32MiB"
        timeout = "5s"
        attempts = 9
        backoff = { kind = "exponential", base = "2s", max = "1h", jitter = 0 }
        payload-limit = 1024
        output-limit = "2KiB"
        log-limit = "3KiB"
        host-calls = "10k"
        follow-ups = 0
        checkpoint-limit = "4KiB"
        state-limit = "5KiB"
        state-ttl = "9d"
        result-retention = "7d"
        ended-retention = "2m"
        ttl = "1h"
        dead-limit = "2k"
        dead-retention = "1d"
        raw-producers = true
        server-log = false
        park = false
        pause-after-traps = 5
        record = "sample 0.5%"
        partitions = 1
        enqueue = ["a"]
        clock = true
        random = true
        state = true
        config = { region = "eu" }
        env = { TZ = "Europe/Paris", PACKAGE = { env = "CARGO_PKG_NAME" } }
        secrets = { package = { env = "CARGO_PKG_NAME" } }
        [topics.a.http]
        allow = ["hooks.example.com", "http://*.example.org:8080"]
        networks = ["10.1.2.0/24", "::1"]
        timeout = "3s"
        request-limit = "5KiB"
        response-limit = "6KiB"
        requests = 8
        idempotency = true
    "#;
    let topic = topic(text);
    let expected = Limits {
        fuel: 500_000_000,
        memory_bytes: 32 << 20,
        timeout: Duration::from_secs(5),
        payload_bytes: 1024,
        output_bytes: 2048,
        log_bytes: 3072,
        host_calls: 10_000,
        follow_ups: 0,
        checkpoint_bytes: 4096,
        state_bytes: 5120,
    };
    assert_eq!(topic.limits, expected);
    assert_eq!((topic.handler.as_str(), topic.concurrency, topic.retry.attempts), ("echo", 7, 9));
    assert_eq!((topic.reuse, topic.state_ttl), (50, Duration::from_secs(9 * 86_400)));
    let (base, max) = (Duration::from_secs(2), Duration::from_secs(3600));
    assert_eq!(topic.retry.backoff, Backoff { kind: BackoffKind::Exponential, base, max, jitter: 0 });
    assert_eq!((topic.dead.keep, topic.dead.retention, topic.raw_producers), (2000, Duration::from_secs(86_400), true));
    assert_eq!((topic.server_log, topic.park, topic.pause_after_traps), (false, false, 5));
    assert_eq!(topic.record, RecordPolicy::Sample(50));
    assert_eq!(topic.ended_retention, Duration::from_secs(120));
    assert_eq!((topic.result_retention, topic.ttl), (Duration::from_secs(604_800), Some(Duration::from_secs(3600))));
    assert_eq!(topic.grants.enqueue, Some(vec!["a".parse().unwrap()]));
    assert_eq!(topic.grants.config["region"], "eu");
    assert_eq!(topic.grants.secrets["package"], env!("CARGO_PKG_NAME").as_bytes());
    assert!(topic.grants.switches.iter().copied().eq(gristmill_core::topic::Capability::switches()));
    assert_eq!(
        (topic.grants.env["TZ"].as_str(), topic.grants.env["PACKAGE"].as_str()),
        ("Europe/Paris", env!("CARGO_PKG_NAME"))
    );
    let http = HttpGrant {
        allow: vec!["hooks.example.com".parse().unwrap(), "http://*.example.org:8080".parse().unwrap()],
        networks: vec!["10.1.2.0/24".parse().unwrap(), "::1/128".parse().unwrap()],
        timeout: Duration::from_secs(3),
        request_bytes: 5 << 10,
        response_bytes: 6 << 10,
        requests: 8,
        idempotency: true,
    };
    assert_eq!(topic.grants.http.as_deref(), Some(&http));
}

#[test]
fn requests_are_granted_by_name_and_have_usual_limits() {
    assert_eq!(topic("[topics.a]").grants.http, None);
    let usual = HttpGrant::of(vec!["*".parse().unwrap()]);
    assert_eq!(topic("[topics.a.http]\nallow = [\"*\"]").grants.http.as_deref(), Some(&usual));
}

#[test]
fn what_lies_within_a_tenants_bounds_is_granted() {
    let manifest = parse(
        r#"
        [tenants.acme.bounds]
        http = ["*.acme.com", "acme.com:*"]
        networks = ["10.0.0.0/8"]
        secrets = false
        [tenants.acme.defaults]
        timeout = "1s"
        [tenants.acme.topics.a]
        config = { colour = "green" }
        secrets = {}
        [tenants.acme.topics.a.http]
        allow = ["hooks.acme.com", "*.eu.acme.com", "acme.com:8443"]
        networks = ["10.1.0.0/16"]
        [tenants.free.topics.b.http]
        allow = ["*"]
        networks = ["127.0.0.1"]
        [tenants.open.bounds]
        networks = ["127.0.0.1"]
        [tenants.open.topics.c.http]
        allow = ["*"]
        networks = ["127.0.0.1"]
        "#,
    );
    assert_eq!(manifest.topics.values().filter(|topic| topic.grants.http.is_some()).count(), 3);
}

#[test]
fn a_layer_changes_what_it_names_and_nothing_else() {
    let text = r#"
        [defaults]
        timeout = "1s"
        attempts = 2
        ttl = "1h"
        backoff = { jitter = 1 }
        [topics.a]
        attempts = 3
        backoff = { base = "7s" }
        [tenants.acme.defaults]
        timeout = "2s"
        [tenants.acme.topics.b]
        ttl = "forever"
        [tenants.acme.topics.c]
        timeout = "3s"
        backoff = "9s"
    "#;
    let manifest = parse(text);
    let seen = |name| {
        let topic: &Topic = &manifest.topics[&id(name)];
        (topic.limits.timeout.as_secs(), topic.retry.attempts, topic.ttl.is_some(), topic.retry.backoff)
    };
    let built_in = Backoff::default();
    assert_eq!(seen("a"), (1, 3, true, Backoff { base: Duration::from_secs(7), jitter: 1, ..built_in }));
    assert_eq!(seen("acme/b"), (2, 2, false, Backoff { jitter: 1, ..built_in }));
    let nine = Duration::from_secs(9);
    assert_eq!(seen("acme/c"), (3, 2, true, Backoff { kind: BackoffKind::Fixed, base: nine, max: nine, jitter: 0 }));

    let auto = manifest.auto_topic(&"echo".parse().unwrap());
    assert_eq!((auto.id, auto.handler.as_str()), (id("echo"), "echo"));
    assert_eq!((auto.limits.timeout.as_secs(), auto.retry.attempts), (1, 2));
}

#[test]
fn a_topics_handler_is_its_namesake_unless_it_names_another() {
    assert_eq!(topic("[topics.a]").handler.as_str(), "a");
}

#[test]
fn every_bound_holds_at_its_edges_and_not_beyond() {
    for &bounds in ranges::ALL {
        let section = match bounds.key {
            "threads" | "shutdown-grace" | "bill-retention" => "server",
            "rescan" | "component-limit" | "compile-timeout" | "compile-memory" => "handlers",
            "replicas" | "acknowledged-within" => "store",
            "slower-than" => "otel",
            "rotate-at" | "keep" => "journal",
            "every" => "topics.a.schedule.s",
            "jitter" if std::ptr::eq(bounds, &ranges::TICK_JITTER) => "topics.a.schedule.s",
            "base" | "max" | "jitter" => "topics.a.backoff",
            "request-limit" | "response-limit" | "requests" => "topics.a.http",
            "requests-per-second"
            | "stored-jobs"
            | "stored-bytes"
            | "topics"
            | "payload"
            | "keep-result"
            | "unique-window"
            | "weight"
            | "jobs-per-day"
            | "fuel-per-hour" => "limits",
            "max-running" if std::ptr::eq(bounds, &ranges::RUNNING_OF_TENANT) => "limits",
            "concurrency" if std::ptr::eq(bounds, &ranges::REQUESTS_AT_ONCE) => "limits",
            "timeout" if std::ptr::eq(bounds, &ranges::HTTP_TIMEOUT) => "topics.a.http",
            "max-running" if std::ptr::eq(bounds, &ranges::RUNNING_PER_KEY) => "topics.a.per-key",
            _ => "topics.a",
        };
        let with = |base: u64| {
            let value = if bounds.scale.bare { base.to_string() } else { format!("\"{base}ms\"") };
            // So that cross-checks and what is required stay out of the way.
            let other = match bounds.key {
                "rotate-at" | "keep" => "path = \"a\"",
                "replicas" | "acknowledged-within" => "url = \"redis://db\"\nacknowledged-by = \"disks\"",
                "base" => "max = \"30d\"",
                "max" => "base = \"0s\"",
                "burst" => "rate = \"1/s\"",
                "partitions" => "[store]\nurl = \"redis://db\"",
                "jitter" if section == "topics.a.schedule.s" => "cron = \"@daily\"",
                _ if section == "topics.a.http" => "allow = [\"*\"]",
                _ => "",
            };
            Manifest::parse(&format!("[{section}]\n{} = {value}\n{other}", bounds.key), Path::new("m.toml")).is_ok()
        };
        assert!(with(bounds.min) && with(bounds.max), "{bounds:?}");
        assert!(!with(bounds.max + 1), "{bounds:?}");
        assert!(bounds.min == 0 || !with(bounds.min - 1), "{bounds:?}");
    }
}

#[test]
fn the_reference_names_every_range() {
    let reference = include_str!("../../../../docs/reference/manifest.md");
    for &bounds in ranges::ALL {
        let (start, range) = (format!("| `{}` |", bounds.key), format!("| {} |", bounds.range()));
        let is_there = reference.lines().any(|line| line.starts_with(&start) && line.contains(&range));
        assert!(is_there, "docs/reference/manifest.md has no line `{start} … {range} …`");
    }
}

#[test]
fn the_manifest_of_the_demo_is_good() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../gristmill.toml");
    let manifest = Manifest::load(&path).unwrap_or_else(|error| panic!("{error}"));
    let names: Vec<_> = manifest.topics.keys().map(ToString::to_string).collect();
    assert_eq!(names, ["notify", "order-timeout", "resize-image", "simulate", "webhook"]);
}

#[test]
fn a_command_that_runs_no_handlers_needs_no_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gristmill.toml");
    std::fs::write(&path, "[topics.a.secrets]\nkey = { file = \"gone\" }").unwrap();
    assert!(Manifest::load(&path).is_err());
    std::fs::write(folder.path().join("gone"), "").unwrap();
    let empty = Manifest::load(&path).unwrap_err().to_string();
    assert!(empty.contains("`key` in [topics.a.secrets] is empty"), "{empty}");
    assert!(Manifest::load_without_secrets(&path).unwrap().topics[&id("a")].grants.secrets.is_empty());
}

#[test]
fn a_store_may_be_named_by_the_environment() {
    assert!(problems("[store]\nurl = { env = \"CARGO_PKG_NAME\" }").contains("no address of a store"));
}

#[test]
fn a_file_is_as_durable_as_the_manifest_says() {
    let store = |text: &str| parse(&format!("[store]\n{text}")).store;
    assert_eq!(store("url = \"sqlite:a.db\"").durability, Durability::Power);
    let process = store("url = \"sqlite:a.db\"\ndurability = \"process\"");
    assert_eq!(process.durability, Durability::Process);
    assert_eq!(process.address, StoreAddress::File("/etc/gristmill/a.db".into()));
    assert_eq!(store("durability = \"process\"").durability, Durability::Process);
}

#[test]
fn the_door_may_be_shut() {
    assert_eq!(parse("[http]\nlisten = \"off\"").http.listen, Listen::Off);
}

#[test]
fn a_topic_is_external_only_if_it_says_so() {
    let manifest = parse("[topics.a]\nhandler = \"external\"\n[topics.external]\n[topics.b]\nhandler = \"a\"\n");
    let external = |topic: &str| manifest.topics[&id(topic)].external;
    assert_eq!([external("a"), external("external"), external("b")], [true, false, false]);
    // What a component of that name could do is not among them.
    let of: Vec<_> = manifest.topics_of(&"external".parse().unwrap()).into_iter().map(|topic| topic.id).collect();
    assert_eq!(of, [id("external")]);
}

#[test]
fn a_missing_handler_is_shown_where_the_topic_names_it() {
    let manifest = parse("[topics.resize-image]\n\n[topics.thumbs]\nhandler = \"resize-imge\"\n");
    let available: [Name; 2] = ["echo".parse().unwrap(), "resize-image".parse().unwrap()];
    let expected = "\
error: topic `thumbs` has no handler: there is no /etc/gristmill/handlers/resize-imge.wasm that can be used
 --> /etc/gristmill/gristmill.toml:4:11
  |
4 | handler = \"resize-imge\"
  |           ^^^^^^^^^^^^^ did you mean `resize-image`?";
    assert_eq!(manifest.missing_handler(&id("thumbs"), &available).to_string(), expected);
    assert_eq!(manifest.missing_handler(&id("resize-image"), &[]).place(), Some((1, 9)));
    assert_eq!(manifest.missing_handler(&id("unwritten"), &available).place(), None);
}

#[test]
fn a_missing_grant_is_shown_with_the_lines_to_add() {
    use gristmill_core::topic::Capability::{Clock, HandlerAdapter, Http, Random};
    let manifest = parse("[topics.report]\n");
    let expected = "\
error: topic `report` does not grant what its handler `report` imports: `clock`, `random`, `http`
 --> /etc/gristmill/gristmill.toml:1:9
  |
1 | [topics.report]
  |         ^^^^^^
  |
  = help: if it may have that, say so in /etc/gristmill/gristmill.toml:
            [topics.report]
            clock = true
            random = true
            [topics.report.http]
            allow = [\"the.host.it.asks\"]";
    assert_eq!(manifest.missing_grants(&topic_of(&manifest, "report"), &[Clock, Random, Http]).to_string(), expected);
    let called = parse("[topics.report]\nadapter = \"command\"\n");
    let problem = called.missing_grants(&topic_of(&called, "report"), &[HandlerAdapter]).to_string();
    let help = "help: say so in /etc/gristmill/gristmill.toml instead of `adapter = \"command\"`:\n";
    assert!(problem.contains(help) && problem.contains("adapter = \"handler\""), "{problem}");
    let unwritten = manifest.auto_topic(&"thumbs".parse().unwrap());
    let problem = manifest.missing_grants(&unwritten, &[Random]);
    assert_eq!(problem.place(), None);
    assert!(problem.to_string().contains("[topics.thumbs]"), "{problem}");
}

#[test]
fn colours_come_only_when_asked_for() {
    let error = Manifest::parse("x = 1", Path::new("gristmill.toml")).unwrap_err();
    assert!(!error.render(false).contains('\u{1b}'));
    assert!(error.render(true).contains('\u{1b}'));
}

#[test]
fn a_manifest_that_is_not_there_is_named() {
    let error = Manifest::load(Path::new("/no/such/gristmill.toml")).unwrap_err();
    assert!(matches!(error, ManifestError::Read { .. }));
    assert!(error.to_string().contains("/no/such/gristmill.toml"));
}

#[test]
fn only_the_first_of_many_mistakes_are_shown() {
    let text: String = (0..30).map(|n| format!("x{n} = 1\n")).collect();
    let shown = problems(&text);
    assert_eq!(shown.matches("error: ").count(), 20);
    assert!(shown.ends_with("has 30 problems; the first 20 are shown"));
}

#[test]
fn made_up_manifests_are_read_or_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests");
    let bad = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let bad = bad.filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
    let mut known: Vec<_> = bad.map(|path| std::fs::read(path).unwrap()).collect();
    known.push(std::fs::read(folder.join("../../../../gristmill.toml")).unwrap());
    let known: Vec<&[u8]> = known.iter().map(Vec::as_slice).collect();
    gristmill_fuzz::check("manifest", &known, |input| {
        let read = Manifest::parse(&String::from_utf8_lossy(input), Path::new("gristmill.toml"));
        read.map(|manifest| manifest.topics.len())
            .map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())
    });
}

#[test]
fn a_component_that_a_section_names_makes_no_topic() {
    let text = "[topics.small]\nhandler = \"echo\"\n[tenants.acme.topics.secret]\n[tenants.acme.topics.print]\n\
                handler = \"external\"";
    let manifest = parse(text);
    let makes = |name: &str| manifest.makes_topic(&name.parse().unwrap());
    assert!(!makes("echo") && makes("print") && !makes("secret"));
    let topics = manifest.topics_of(&"secret".parse().unwrap());
    assert_eq!(topics.iter().map(|topic| topic.id.to_string()).collect::<Vec<_>>(), ["acme/secret"]);
}

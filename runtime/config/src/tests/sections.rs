//! What the other sections come to, and whole manifests.

use std::path::Path;
use std::time::Duration;

use super::{id, parse, problems};
use crate::{Durability, LineFileSettings, Listen, Manifest, StoreAddress, UnknownTopics};

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
fn a_file_is_as_durable_as_the_manifest_says() {
    let store = |text: &str| parse(&format!("[store]\n{text}")).store;
    assert_eq!(store("url = \"sqlite:a.db\"").durability, Durability::Power);
    let process = store("url = \"sqlite:a.db\"\ndurability = \"process\"");
    assert_eq!(process.durability, Durability::Process);
    assert_eq!(process.address, StoreAddress::File("/etc/gristmill/a.db".into()));
    assert_eq!(store("durability = \"process\"").durability, Durability::Process);
}

#[test]
fn the_http_server_may_be_off() {
    assert_eq!(parse("[http]\nlisten = \"off\"").http.listen, Listen::Off);
}

//! TLS to real servers: what is trusted, and what a person reads who set it up wrong.

use std::path::PathBuf;
use std::time::Duration;

use gristmill_config::{RedisSettings, RedisTls, TlsSettings};
use gristmill_core::job::{Due, JobSpec, NewJob, Payload, TopicId};
use gristmill_core::outcome::Verdict;
use gristmill_test_servers::certificates::Certificates;
use gristmill_test_servers::cluster::Cluster;
use gristmill_test_servers::redis::{Redis, Settings};

use super::server::until;
use super::waking::next;
use crate::prelude::*;
use crate::redis::RedisStore;
use crate::tests::{LEASE, job, tenant, topic, worker};
use crate::{ClaimFrom, Settled, Settlement, Signal, StoreError};

fn trusting(ca: PathBuf) -> RedisSettings {
    RedisSettings { tls: RedisTls { ca: Some(ca), client: None }, ..RedisSettings::default() }
}

fn with_client(certificates: &Certificates, who: &str) -> RedisSettings {
    let certificate = certificates.path(&format!("{who}.pem"));
    let client = Some(TlsSettings { certificate, key: certificates.path(&format!("{who}-key.pem")) });
    RedisSettings { tls: RedisTls { ca: Some(certificates.path("ca.pem")), client }, ..RedisSettings::default() }
}

/// Connects once the server takes the time to answer.
async fn open(url: &str, settings: &RedisSettings) -> RedisStore {
    let mut store = None;
    until("the server answers", async || {
        store = RedisStore::open(url, settings).await.ok();
        store.is_some()
    })
    .await;
    store.unwrap()
}

/// What an operator reads when the connection is refused.
async fn refusal(url: &str, settings: &RedisSettings) -> String {
    let mut refusal = String::new();
    until("the connection is refused", async || match RedisStore::open(url, settings).await.unwrap_err() {
        error @ StoreError::Refused { .. } => {
            refusal = format!("{:#}", anyhow::Error::from(error));
            true
        }
        _ => false,
    })
    .await;
    assert!(!refusal.contains("hunter2"), "{refusal}");
    refusal
}

#[tokio::test]
async fn jobs_and_signals_go_over_tls() {
    let certificates = Certificates::new();
    certificates.issue("server", &["localhost"]);
    certificates.issue("client", &[]);
    for asks_for_certificates in [false, true] {
        let server = Redis::start_with(Settings::default().tls(&certificates, "server", asks_for_certificates)).await;
        let url = format!("rediss://localhost:{}", server.port());
        let settings = if asks_for_certificates {
            with_client(&certificates, "client")
        } else {
            trusting(certificates.path("ca.pem"))
        };
        let store = open(&url, &settings).await;
        let mut signals = store.signals(&[tenant()]).await.unwrap();
        store.push(&[job("mail")]).await.unwrap();
        assert_eq!(next(&mut signals).await, Signal::Ready(topic("mail")));
    }
}

#[tokio::test]
async fn jobs_of_all_servers_of_a_cluster_go_over_tls() {
    let certificates = Certificates::new();
    certificates.issue("server", &["127.0.0.1"]);
    let cluster = Cluster::start_with(Settings::default().tls(&certificates, "server", false), 3, 0).await;
    assert!(cluster.url().starts_with("rediss+cluster://"), "{}", cluster.url());
    let store = open(&cluster.url(), &trusting(certificates.path("ca.pem"))).await;
    // The second and the third are at other servers than the first.
    let topics: Vec<TopicId> = ["acme/mail", "other/mail", "beside/mail"].map(|topic| topic.parse().unwrap()).into();
    let jobs: Vec<_> = topics
        .iter()
        .map(|topic| NewJob { spec: JobSpec::new(topic.clone(), Payload::default()), due: Due::Now })
        .collect();
    assert_eq!(store.push(&jobs).await.unwrap().len(), 3);
    let lines: Vec<_> = topics.iter().map(|topic| ClaimFrom::new(topic.clone(), 1, LEASE)).collect();
    let claims = store.claim(&worker(), &lines).await.unwrap().claims;
    let settlements: Vec<_> =
        claims.iter().map(|claim| Settlement::of(claim, Verdict::Ack(None), Duration::ZERO)).collect();
    assert_eq!(store.settle(&settlements).await.unwrap(), [Settled::Done; 3]);
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_is_refused_with_the_remedy() {
    let (certificates, others) = (Certificates::new(), Certificates::new());
    certificates.issue("server", &["redis.example"]);
    let server = Redis::start_with(Settings::default().tls(&certificates, "server", false)).await;
    let url = format!("rediss://:hunter2@localhost:{}", server.port());
    let shown = format!("rediss://localhost:{}", server.port());

    let problem = refusal(&url, &trusting(others.path("ca.pem"))).await;
    for part in [&shown, &others.path("ca.pem").display().to_string(), "was not issued by", "set `ca`"] {
        assert!(problem.contains(part), "{part}: {problem}");
    }
    let problem = refusal(&url, &trusting(certificates.path("ca.pem"))).await;
    for part in [&shown, "redis.example", "localhost", "`url`"] {
        assert!(problem.contains(part), "{part}: {problem}");
    }
    let missing = certificates.path("missing.pem");
    let problem = refusal(&url, &trusting(missing.clone())).await;
    assert!(problem.contains(&missing.display().to_string()) && problem.contains("`ca`"), "{problem}");
}

#[tokio::test]
async fn a_server_that_asks_for_a_certificate_names_what_to_set() {
    let (certificates, others) = (Certificates::new(), Certificates::new());
    certificates.issue("server", &["127.0.0.1"]);
    others.issue("client", &[]);
    let server = Redis::start_with(Settings::default().tls(&certificates, "server", true)).await;
    let url = format!("rediss://127.0.0.1:{}", server.port());
    let problem = refusal(&url, &trusting(certificates.path("ca.pem"))).await;
    assert!(problem.contains("set `certificate` and `key`"), "{problem}");
    let mut foreign = with_client(&others, "client");
    foreign.tls.ca = Some(certificates.path("ca.pem"));
    let problem = refusal(&url, &foreign).await;
    assert!(problem.contains("set `certificate` and `key`"), "{problem}");
}

#[tokio::test]
async fn a_server_with_and_one_without_tls_are_told_apart() {
    let certificates = Certificates::new();
    certificates.issue("server", &["localhost"]);
    let with = Redis::start_with(Settings::default().tls(&certificates, "server", false)).await;
    let without = Redis::start_with(Settings::default().listens()).await;
    let problem = refusal(&format!("redis://:hunter2@localhost:{}", with.port()), &RedisSettings::default()).await;
    assert!(problem.contains("speaks TLS; begin `url` with `rediss://`"), "{problem}");
    let settings = trusting(certificates.path("ca.pem"));
    let problem = refusal(&format!("rediss://:hunter2@localhost:{}", without.port()), &settings).await;
    assert!(problem.contains("does not speak TLS; begin `url` with `redis://`"), "{problem}");
}

#[tokio::test]
async fn a_renewed_certificate_is_taken_up_by_the_next_connection() {
    let certificates = Certificates::new();
    certificates.issue("server", &["localhost"]);
    let mut server = Redis::start_with(Settings::default().tls(&certificates, "server", true)).await;
    certificates.issue("client", &[]);
    let store = open(&format!("rediss://localhost:{}", server.port()), &with_client(&certificates, "client")).await;
    std::fs::write(certificates.path("client.pem"), "no PEM").unwrap();
    server.replace().await;
    let mut problem = String::new();
    until("the broken file is noticed", async || {
        problem = format!("{:#}", anyhow::Error::from(store.push(&[job("mail")]).await.unwrap_err()));
        problem.contains("client.pem")
    })
    .await;
    assert!(problem.contains("is unavailable"), "what waits for the store goes on waiting: {problem}");
    certificates.issue("client", &[]);
    until("the new file is taken up", async || store.push(&[job("mail")]).await.is_ok()).await;
}

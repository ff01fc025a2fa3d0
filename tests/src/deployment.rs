//! The kinds of Redis that people have, each as servers that all tests of this process share.

use std::sync::{Arc, Weak};

use gristmill::config::{RedisSettings, RedisTls};
use tokio::sync::Mutex;

use crate::certificates::Certificates;
use crate::cluster::Cluster;
use crate::redis::{Redis, Settings};
use crate::sentinels::Watched;
use crate::test_store::tenant;

/// What `docs/operating.md` says a user of Gristmill needs.
const OPERATING: &str = include_str!("../../docs/operating.md");

/// A Redis, and how a store reaches it.
#[derive(Debug)]
pub struct Deployment {
    /// The server that has the data; of a cluster, those of [`tenant`]. The tests speak to it as its default user, which may do everything.
    pub server: Redis,
    url: String,
    tls: RedisTls,
    /// What must stay as long as it.
    _beside: Beside,
}

#[derive(Debug)]
enum Beside {
    Nothing,
    Certificates(#[expect(dead_code, reason = "kept for its files")] Box<Certificates>),
    Servers(#[expect(dead_code, reason = "kept for its processes")] Watched),
    Cluster(#[expect(dead_code, reason = "kept for its processes")] Cluster),
}

/// The kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedisKind {
    /// One server, on a socket.
    Plain,
    /// One server that speaks TLS alone, as the user with the rights that `docs/operating.md` names, and no other.
    Limited,
    /// A primary with a replica, which sentinels name.
    Sentinels,
    /// Three primaries that share the keys, as the user with the documented rights.
    Cluster,
    /// One Valkey, on a socket.
    Valkey,
}

impl Deployment {
    /// Starts one, unless a test of this process uses one of this kind. It ends with the last of its users, so that nothing stays
    /// behind.
    pub async fn shared(kind: RedisKind) -> Arc<Self> {
        static SHARED: Mutex<Vec<(RedisKind, Weak<Deployment>)>> = Mutex::const_new(Vec::new());
        let mut shared = SHARED.lock().await;
        shared.retain(|(_, deployment)| deployment.strong_count() > 0);
        let running = shared.iter().find(|(known, _)| *known == kind).and_then(|(_, deployment)| deployment.upgrade());
        if let Some(running) = running {
            return running;
        }
        let deployment = Arc::new(Self::start(kind).await);
        shared.push((kind, Arc::downgrade(&deployment)));
        deployment
    }

    async fn start(kind: RedisKind) -> Self {
        match kind {
            RedisKind::Plain => Self::on_a_socket(Redis::start_without_log().await),
            RedisKind::Valkey => Self::on_a_socket(Redis::start_with(Settings::default().valkey()).await),
            RedisKind::Sentinels => {
                let mut watched = Watched::start(1).await;
                let (url, server) = (watched.url(), watched.servers.remove(0));
                Self { server, url, tls: RedisTls::default(), _beside: Beside::Servers(watched) }
            }
            RedisKind::Cluster => {
                let mut cluster = Cluster::start(3, 0).await;
                let has_tenant = cluster.owner(cluster.slot(&format!("{{{}/0}}", tenant())).await).await;
                for server in &cluster.servers {
                    allow(server, &rules()).await;
                }
                let url = cluster.url().replace("://", "://gristmill:pw@");
                let server = cluster.servers.remove(has_tenant);
                Self { server, url, tls: RedisTls::default(), _beside: Beside::Cluster(cluster) }
            }
            RedisKind::Limited => {
                let certificates = Certificates::new();
                certificates.issue("server", &["localhost"]);
                let server = Redis::start_with(Settings::default().tls(&certificates, "server", false)).await;
                allow(&server, &rules()[..1]).await;
                let url = format!("rediss://gristmill:pw@localhost:{}", server.port());
                let tls = RedisTls { ca: Some(certificates.path("ca.pem")), client: None };
                Self { server, url, tls, _beside: Beside::Certificates(Box::new(certificates)) }
            }
        }
    }

    fn on_a_socket(server: Redis) -> Self {
        Self { url: server.url(), server, tls: RedisTls::default(), _beside: Beside::Nothing }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// The settings of a store whose keys begin with the prefix. The documented rights are for keys below `gm:`.
    pub fn settings(&self, prefix: &str) -> RedisSettings {
        RedisSettings { prefix: prefix.to_owned(), tls: self.tls.clone(), ..RedisSettings::default() }
    }
}

/// The documented rules, word by word, without `ACL SETUSER gristmill`: what each Redis needs, and what a cluster needs beside it.
fn rules() -> Vec<Vec<&'static str>> {
    let rules = OPERATING.lines().filter_map(|line| line.strip_prefix("ACL SETUSER gristmill "));
    let rules: Vec<Vec<_>> = rules.map(|rule| rule.split(' ').collect()).collect();
    assert_eq!(rules.len(), 2, "docs/operating.md has each rule on a line of its own");
    rules
}

/// The documented rule for a Redis that is in no cluster.
pub fn documented_rule() -> Vec<&'static str> {
    rules().remove(0)
}

/// Makes the documented user, with the password `pw`.
async fn allow(server: &Redis, rules: &[Vec<&str>]) {
    for rule in rules {
        let mut words = vec!["SETUSER", "gristmill"];
        words.extend(rule.iter().map(|word| if *word == ">PASSWORD" { ">pw" } else { word }));
        server.ask::<String>("ACL", &words).await.expect("Redis takes the documented rule");
    }
}

//! The kinds of Redis that people have, each as servers that all tests of this process share.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use gristmill_config::{RedisSettings, RedisTls};
use gristmill_test_servers::certificates::Certificates;
use gristmill_test_servers::cluster::Cluster;
use gristmill_test_servers::redis::{Redis, Settings};
use gristmill_test_servers::sentinels::Watched;
use tokio::sync::Mutex;

use crate::test_store::tenant;

/// What `docs/guides/operating.md` says a user of Gristmill needs.
const OPERATING: &str = include_str!("../../../docs/guides/operating.md");

/// A Redis, and how a store reaches it.
#[derive(Debug)]
pub struct Deployment {
    /// The server that has the data; of a cluster, those of [`tenant`]. The tests speak to it as its default user, which may do everything.
    pub server: Redis,
    url: String,
    tls: RedisTls,
    beside: Beside,
}

/// What must stay as long as the server.
#[derive(Debug)]
enum Beside {
    Nothing,
    Certificates(Box<Certificates>),
    Servers(Watched),
    Cluster(Cluster),
}

/// A deployment that serves until this process ends.
#[derive(Debug)]
struct Running {
    kind: RedisKind,
    deployment: Arc<Deployment>,
    _end: Child,
}

/// The kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedisKind {
    /// One server, on a socket.
    Plain,
    /// One server that speaks TLS alone, as the user with the rights that `docs/guides/operating.md` names, and no other.
    Limited,
    /// A primary with a replica, which sentinels name.
    Sentinels,
    /// Three primaries that share the keys, as the user with the documented rights.
    Cluster,
    /// One Valkey, on a socket.
    Valkey,
}

impl Deployment {
    /// Starts one, unless this process has one of this kind; a cluster takes seconds to start. It is empty for a test that uses it alone.
    pub async fn shared(kind: RedisKind) -> Arc<Self> {
        static SHARED: Mutex<Vec<Running>> = Mutex::const_new(Vec::new());
        let mut shared = SHARED.lock().await;
        if let Some(running) = shared.iter().find(|running| running.kind == kind) {
            if Arc::strong_count(&running.deployment) == 1 {
                running.deployment.forget().await;
            }
            return Arc::clone(&running.deployment);
        }
        let deployment = Arc::new(Self::start(kind).await);
        let _end = deployment.end_with_this_process();
        shared.push(Running { kind, deployment: Arc::clone(&deployment), _end });
        deployment
    }

    fn servers(&self) -> impl Iterator<Item = &Redis> {
        let (more, sentinels): (&[Redis], &[Redis]) = match &self.beside {
            Beside::Nothing | Beside::Certificates(_) => (&[], &[]),
            Beside::Servers(watched) => (&watched.servers, &watched.sentinels),
            Beside::Cluster(cluster) => (&cluster.servers, &[]),
        };
        [&self.server].into_iter().chain(more).chain(sentinels)
    }

    /// What earlier tests left. Replicas and sentinels refuse: they hold what their primary holds, and nothing.
    async fn forget(&self) {
        for server in self.servers() {
            drop(server.ask::<String>("FLUSHALL", &[]).await);
        }
    }

    /// A process that ends the servers when this one has ended, however it did: what is static is not dropped.
    fn end_with_this_process(&self) -> Child {
        let pids: Vec<String> = self.servers().map(|server| server.pid().to_string()).collect();
        let mut folders: Vec<PathBuf> =
            self.servers().filter_map(|server| Some(server.socket().parent()?.into())).collect();
        if let Beside::Certificates(certificates) = &self.beside {
            folders.push(certificates.path(""));
        }
        let mut end = Command::new("sh");
        end.args(["-c", "read -r _; kill -9 $1; shift; rm -rf \"$@\"", "sh", &pids.join(" ")]).args(folders);
        end.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    async fn start(kind: RedisKind) -> Self {
        match kind {
            RedisKind::Plain => Self::on_a_socket(Redis::start_without_log().await),
            RedisKind::Valkey => Self::on_a_socket(Redis::start_with(Settings::default().valkey()).await),
            RedisKind::Sentinels => {
                let mut watched = Watched::start(1).await;
                let (url, server) = (watched.url(), watched.servers.remove(0));
                Self { server, url, tls: RedisTls::default(), beside: Beside::Servers(watched) }
            }
            RedisKind::Cluster => {
                let mut cluster = Cluster::start(3, 0).await;
                let has_tenant = cluster.owner(cluster.slot(&format!("{{{}/0}}", tenant())).await).await;
                for server in &cluster.servers {
                    allow(server, &rules()).await;
                }
                let url = cluster.url().replace("://", "://gristmill:pw@");
                let server = cluster.servers.remove(has_tenant);
                Self { server, url, tls: RedisTls::default(), beside: Beside::Cluster(cluster) }
            }
            RedisKind::Limited => {
                let certificates = Certificates::new();
                certificates.issue("server", &["localhost"]);
                let server = Redis::start_with(Settings::default().tls(&certificates, "server", false)).await;
                allow(&server, &rules()[..1]).await;
                let url = format!("rediss://gristmill:pw@localhost:{}", server.port());
                let tls = RedisTls { ca: Some(certificates.path("ca.pem")), client: None };
                Self { server, url, tls, beside: Beside::Certificates(Box::new(certificates)) }
            }
        }
    }

    fn on_a_socket(server: Redis) -> Self {
        Self { url: server.url(), server, tls: RedisTls::default(), beside: Beside::Nothing }
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
    assert_eq!(rules.len(), 2, "docs/guides/operating.md has each rule on a line of its own");
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

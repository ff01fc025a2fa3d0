//! Servers of a Redis Cluster.

use crate::redis::{Redis, Settings};
use crate::wait::{SOON, until};

const SLOTS: usize = 16_384;

/// Primaries that share the slots evenly, and servers without slots.
#[derive(Debug)]
pub struct Cluster {
    pub servers: Vec<Redis>,
    scheme: &'static str,
}

impl Cluster {
    /// Starts so many primaries, and so many `more` servers without slots. Waits until all know each other.
    pub async fn start(primaries: usize, more: usize) -> Self {
        Self::start_with(Settings::default().listens(), primaries, more).await
    }

    /// The same with these settings for each server.
    pub async fn start_with(settings: Settings, primaries: usize, more: usize) -> Self {
        let scheme = if settings.speaks_tls() { "rediss" } else { "redis" };
        let settings = settings.in_cluster().option("repl-diskless-sync-delay", "0");
        let mut servers = Vec::new();
        for _ in 0..primaries + more {
            servers.push(Redis::start_with(settings.clone()).await);
        }
        let cluster = Self { servers, scheme };
        for (number, server) in cluster.servers.iter().enumerate() {
            // Otherwise the servers settle which of them is right first.
            cluster.order(number, &["SET-CONFIG-EPOCH", &(number + 1).to_string()]).await;
            cluster.order(0, &["MEET", "127.0.0.1", &server.port().to_string()]).await;
            if number < primaries {
                let (first, end) = (SLOTS * number / primaries, SLOTS * (number + 1) / primaries);
                cluster.order(number, &["ADDSLOTSRANGE", &first.to_string(), &(end - 1).to_string()]).await;
            }
        }
        let (known, size) =
            (format!("cluster_known_nodes:{}\r", primaries + more), format!("cluster_size:{primaries}\r"));
        for server in &cluster.servers {
            until("the servers of the cluster to know each other", SOON, async || {
                let info: String = server.ask("CLUSTER", &["INFO"]).await?;
                let nodes: String = server.ask("CLUSTER", &["NODES"]).await?;
                // A server that is known may have no link yet: a message to it is lost.
                let linked = !["handshake", "disconnected"].iter().any(|flaw| nodes.contains(flaw));
                (linked && ["cluster_state:ok\r", &known, &size].iter().all(|part| info.contains(part))).then_some(())
            })
            .await;
        }
        cluster
    }

    /// `redis+cluster://`, or `rediss+cluster://` where they speak TLS, and two of the servers.
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.servers.iter().take(2).map(|server| format!("127.0.0.1:{}", server.port())).collect();
        format!("{}+cluster://{}", self.scheme, hosts.join(","))
    }

    /// One `CLUSTER` command, which must be obeyed.
    pub async fn order(&self, server: usize, words: &[&str]) {
        let answer: Option<String> = self.servers[server].ask("CLUSTER", words).await;
        assert_eq!(answer.as_deref(), Some("OK"), "CLUSTER {words:?}");
    }

    /// The slot of a key.
    pub async fn slot(&self, key: &str) -> u16 {
        self.servers[0].ask("CLUSTER", &["KEYSLOT", key]).await.expect("an answer")
    }

    pub async fn id(&self, server: usize) -> String {
        self.servers[server].ask("CLUSTER", &["MYID"]).await.expect("an answer")
    }

    /// Which of the servers has the slot, by its own word.
    pub async fn owner(&self, slot: u16) -> usize {
        until("a server to have the slot", SOON, async || {
            for (number, server) in self.servers.iter().enumerate() {
                let Some(nodes) = server.ask::<String>("CLUSTER", &["NODES"]).await else { continue };
                let own = nodes.lines().find(|line| line.contains("myself,master"));
                let has = |range: &str| {
                    let (first, last) = range.split_once('-').unwrap_or((range, range));
                    let ends = first.parse::<u16>().ok().zip(last.parse::<u16>().ok());
                    ends.is_some_and(|(first, last)| (first..=last).contains(&slot))
                };
                if own.is_some_and(|line| line.split(' ').skip(8).any(has)) {
                    return Some(number);
                }
            }
            None
        })
        .await
    }

    /// Moves a slot with its keys, one key at a time, while clients use it.
    pub async fn move_slot(&self, slot: u16, to: usize) {
        let from = self.owner(slot).await;
        let (text, from_id, to_id) = (slot.to_string(), self.id(from).await, self.id(to).await);
        let port = self.servers[to].port().to_string();
        self.order(to, &["SETSLOT", &text, "IMPORTING", &from_id]).await;
        self.order(from, &["SETSLOT", &text, "MIGRATING", &to_id]).await;
        loop {
            let keys: Vec<String> = self.servers[from].ask("CLUSTER", &["GETKEYSINSLOT", &text, "1"]).await.unwrap();
            let Some(key) = keys.first() else { break };
            let moved: Option<String> =
                self.servers[from].ask("MIGRATE", &["127.0.0.1", &port, key, "0", "5000"]).await;
            assert!(moved.is_some(), "{key} cannot be moved");
        }
        // The new one first, or clients go back and forth.
        for server in
            [to, from].into_iter().chain((0..self.servers.len()).filter(|server| ![to, from].contains(server)))
        {
            let answer: Option<String> = self.servers[server].ask("CLUSTER", &["SETSLOT", &text, "NODE", &to_id]).await;
            assert!(
                answer.is_some() || ![to, from].contains(&server),
                "server {server} does not learn who has slot {slot}"
            );
        }
    }
}

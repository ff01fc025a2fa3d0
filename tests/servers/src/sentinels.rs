//! A primary with replicas, and three sentinels that watch it.

use crate::redis::{Redis, Settings};
use crate::wait::{SOON, until};

/// What the sentinels call the primary.
pub const NAME: &str = "main";

/// Servers of which one is the primary, and the sentinels that say which.
///
/// The sentinels never find a server dead by themselves, however busy the machine is: a test asks them for a failover.
#[derive(Debug)]
pub struct Watched {
    /// The first primary, then its replicas.
    pub servers: Vec<Redis>,
    pub sentinels: Vec<Redis>,
}

impl Watched {
    /// Starts a primary with so many replicas, and waits until the sentinels know all of them.
    pub async fn start(replicas: usize) -> Self {
        // By default a primary waits for five seconds for more replicas, to serve them together.
        let settings = Settings::default().listens().option("repl-diskless-sync-delay", "0");
        let primary = Redis::start_with(settings.clone()).await;
        let port = primary.port().to_string();
        let mut servers = vec![primary];
        for _ in 0..replicas {
            servers.push(Redis::start_with(settings.clone().options(&["--replicaof", "127.0.0.1", &port])).await);
        }
        until("the replicas to have what the primary has", SOON, async || {
            let info: String = servers[0].ask("INFO", &["replication"]).await?;
            (info.matches("state=online").count() == replicas).then_some(())
        })
        .await;
        let mut watched = Self { servers, sentinels: Vec::new() };
        for _ in 0..3 {
            watched
                .sentinels
                .push(Redis::start_with(Settings::default().sentinel(NAME, watched.servers[0].port())).await);
        }
        let known = replicas.to_string();
        for sentinel in &watched.sentinels {
            until("a sentinel to know the others", SOON, async || {
                let info: String = sentinel.ask("INFO", &["sentinel"]).await?;
                info.contains(&format!("slaves={known},sentinels=3")).then_some(())
            })
            .await;
        }
        watched
    }

    /// `redis+sentinel://` and the rest.
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port())).collect();
        format!("redis+sentinel://{}/{NAME}", hosts.join(","))
    }

    /// Which of the servers is the primary by the word of the first sentinel.
    pub async fn primary(&self) -> usize {
        until("a sentinel to name the primary", SOON, async || {
            let (_, port): (String, u16) =
                self.sentinels[0].ask("SENTINEL", &["GET-MASTER-ADDR-BY-NAME", NAME]).await?;
            self.servers.iter().position(|server| server.port() == port)
        })
        .await
    }

    /// Waits until the replicas have all that the first server has now.
    pub async fn until_replicated(&self) {
        let info = async || self.servers[0].ask::<String>("INFO", &["replication"]).await;
        let number =
            |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>().parse::<u64>().unwrap();
        let all = until("the primary to answer", SOON, async || {
            Some(number(info().await?.split_once("master_repl_offset:")?.1))
        });
        let all = all.await;
        until("the replicas to have it all", SOON, async || {
            let info = info().await?;
            info.split(",offset=").skip(1).all(|rest| number(rest) >= all).then_some(())
        })
        .await;
    }

    /// Makes another server the primary. Returns which, once all sentinels name it.
    pub async fn fail_over(&self) -> usize {
        let before = self.primary().await;
        until("the sentinels to name another primary", SOON, async || {
            // Refused while one is under way.
            drop(self.sentinels[0].ask::<String>("SENTINEL", &["FAILOVER", NAME]).await);
            (self.primary().await != before).then_some(())
        })
        .await;
        let (after, port) = (self.primary().await, self.servers[self.primary().await].port());
        for sentinel in &self.sentinels {
            until("each sentinel to name the new primary", SOON, async || {
                let named: (String, u16) = sentinel.ask("SENTINEL", &["GET-MASTER-ADDR-BY-NAME", NAME]).await?;
                (named.1 == port).then_some(())
            })
            .await;
        }
        after
    }
}

//! What a push may wait for beside the primary's reply: that replicas, or disks, also have it.
//!
//! Pushes that end while a round waits share the next one. Rounds have a connection of their own, because the server answers nothing on it
//! meanwhile: claims and settlements go on. A round confirms only what went to the same run of the same server by the connection beside it, so
//! that the next primary never confirms what the last one took.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisResult, ServerErrorKind, Value, cmd};
use tokio::sync::Mutex;

use super::commands::Commands;
use super::error::{is_broken, misconfigured};
use super::server::Connection;
use gristmill_config::{AcknowledgedBy, Acknowledgement};

/// How long a key of a connection stays if the process ends in between.
const KEY_MS: u32 = 10_000;

/// Makes keys that no other connection has.
pub(in crate::redis) type ProbeKeys = Box<dyn Fn() -> String + Send + Sync>;

/// The rounds of one connection.
pub(in crate::redis) struct Confirmation {
    connection: Connection,
    settings: Acknowledgement,
    /// Makes keys of this connection alone. Each round writes one: the server waits only for what this very connection has written.
    keys: ProbeKeys,
    /// How many pushes have asked.
    asked: AtomicU64,
    last: Mutex<Round>,
}

/// Which of the pushes the last round was for, and how it ended.
#[derive(Debug, Default)]
struct Round {
    covers: u64,
    failure: Option<Failure>,
}

/// Why a push is not confirmed.
#[derive(Debug, Clone)]
pub(in crate::redis) struct Failure {
    pub(in crate::redis) reason: String,
    /// Whether the connections must be replaced.
    pub(in crate::redis) broken: bool,
}

impl Confirmation {
    /// Rounds by `connection` for pushes by `pushes`.
    ///
    /// # Errors
    /// - The server is too old, keeps no log on disk, or does not allow the user to wait.
    /// - The two connections lead to different servers: an address may do that during a failover.
    pub(in crate::redis) async fn new(
        connection: Connection,
        pushes: &mut Commands,
        settings: Acknowledgement,
        keys: ProbeKeys,
    ) -> RedisResult<Self> {
        let key = keys();
        let confirmation = Self { connection, settings, keys, asked: AtomicU64::new(0), last: Mutex::default() };
        let mut commands = confirmation.connection.commands.clone();
        match confirmation.wait(1).exec_async(&mut commands).await {
            Ok(()) => {}
            Err(error) if is_refusal(&error) => {
                return Err(misconfigured(format!(
                    "this server does not do what `acknowledged-by` in [store] asks for: {error}; it needs the right to `WAIT`, and for \
                     \"disks\" Redis 7.2 or Valkey with `appendonly yes` and the right to `WAITAOF`"
                )));
            }
            Err(error) => return Err(error),
        }
        cmd("SET").arg(&key).arg("").arg("PX").arg(KEY_MS).exec_async(&mut commands).await?;
        let is_same: bool = cmd("EXISTS").arg(&key).query_async(pushes).await?;
        if !is_same {
            return Err(std::io::Error::other(
                "two connections to the address lead to two servers: a failover is under way",
            )
            .into());
        }
        Ok(confirmation)
    }

    /// Waits until all that was pushed before is where it must be, for the rest of the round under way and one more. If the caller does not
    /// wait for the answer, the round ends all the same, so that no later one queues behind it on the connection.
    ///
    /// # Errors
    /// It is not there in time, or the server no longer answers.
    pub(in crate::redis) async fn confirm(self: Arc<Self>) -> Result<(), Failure> {
        let rounds = async move {
            let number = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
            let mut last = self.last.lock().await;
            if last.covers < number {
                // Each push that has asked by now was stored before this round.
                let covers = self.asked.load(Ordering::SeqCst);
                *last = Round { covers, failure: self.round().await.err() };
            }
            last.failure.clone().map_or(Ok(()), Err)
        };
        let stopped = |_| Failure { reason: "the runner is ending".into(), broken: false };
        tokio::spawn(rounds).await.map_err(stopped)?
    }

    async fn round(&self) -> Result<(), Failure> {
        let mut commands = Pipeline::with_capacity(3);
        let key = (self.keys)();
        // It expires, should the process end before it is removed.
        commands.cmd("SET").arg(&key).arg("").arg("PX").arg(KEY_MS).ignore().cmd("DEL").arg(&key).ignore();
        commands.add_command(self.wait(self.settings.within.as_millis()));
        let answer: RedisResult<(Value,)> = commands.query_async(&mut self.connection.commands.clone()).await;
        let (answer,) = answer.map_err(|error| Failure { reason: error.to_string(), broken: is_broken(&error) })?;
        let needed = i64::from(self.settings.replicas);
        let (log, replicas) = match answer {
            Value::Int(replicas) => (true, replicas),
            Value::Array(numbers) => match numbers.as_slice() {
                [Value::Int(log), Value::Int(replicas)] => (*log == 1, *replicas),
                _ => (false, 0),
            },
            _ => (false, 0),
        };
        if log && replicas >= needed {
            return Ok(());
        }
        let own = if log { "" } else { "the primary's own disk does not have it, and " };
        let limit = self.settings.within.as_millis();
        let reason = format!("{own}{replicas} of the {needed} replicas have it after {limit} ms");
        Err(Failure { reason, broken: false })
    }

    fn wait(&self, ms: u128) -> Cmd {
        let mut wait = match self.settings.by {
            AcknowledgedBy::Disks => cmd("WAITAOF").arg(1).to_owned(),
            AcknowledgedBy::Replicas | AcknowledgedBy::Primary => cmd("WAIT"),
        };
        wait.arg(self.settings.replicas).arg(u64::try_from(ms).unwrap_or(u64::MAX));
        wait
    }
}

fn is_refusal(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(ServerErrorKind::ResponseError | ServerErrorKind::NoPerm))
}

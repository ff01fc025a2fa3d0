//! Sends commands to a server, and says how long a caller waits for an answer.

use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, Pipeline, RedisFuture, RedisResult, ToRedisArgs, Value};

use super::error::timed_out;
use super::timeout::timeout;

/// Long enough for the largest batch on a busy server, short enough to notice a half-open connection.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection for many callers at once, which has no timeout of its own.
#[derive(Debug, Clone)]
pub(in crate::redis) struct Commands(pub(in crate::redis) MultiplexedConnection);

impl Commands {
    /// # Errors
    /// The server refuses it or does not answer, or the connection is not one by RESP3.
    pub(in crate::redis) async fn subscribe(&mut self, channels: impl ToRedisArgs) -> RedisResult<()> {
        answered(self.0.subscribe(channels)).await
    }
}

impl ConnectionLike for Commands {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(answered(self.0.send_packed_command(command)))
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(answered(self.0.send_packed_commands(pipeline, offset, count)))
    }

    fn get_db(&self) -> i64 {
        self.0.get_db()
    }
}

async fn answered<T>(answer: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    timeout(RESPONSE_TIMEOUT, answer).await.unwrap_or_else(|_| Err(timed_out("the answer took too long")))
}

//! Running scripts: one call and its answer, or a batch in parts, whose answers come back in the batch's order.

use redis::{RedisResult, Value};

use super::reply::Reply;
use crate::StoreError;
use crate::redis::connection::server_link::Wait;
use crate::redis::script::Call;
use crate::redis::store::{CALLS_AT_ONCE, Server, in_order};

/// A part of a batch, as one call of a script.
pub(in crate::redis) struct BatchCall<A> {
    pub(in crate::redis) call: Call,
    /// The positions in the batch of what the call is about.
    pub(in crate::redis) positions: Vec<usize>,
    /// Reads one answer for each of this many positions.
    pub(in crate::redis) read: fn(Reply, usize) -> RedisResult<Vec<A>>,
}

impl Server {
    /// Runs a script that answers with an array.
    pub(in crate::redis) async fn reply(&self, doing: &'static str, call: Call) -> Result<Reply, StoreError> {
        let reply = self.link.run(doing, vec![call]).await?.pop().unwrap_or_default();
        Reply::new(reply).map_err(self.misread(doing))
    }

    /// Runs a script that answers with a number. Returns whether that is 1.
    pub(in crate::redis) async fn is_one(&self, doing: &'static str, call: Call) -> Result<bool, StoreError> {
        Ok(self.link.run(doing, vec![call]).await? == [Value::Int(1)])
    }

    /// Runs a script that answers with 1 or 0 for each job.
    pub(in crate::redis) async fn yes_or_no(&self, doing: &'static str, call: Call) -> Result<Vec<bool>, StoreError> {
        self.reply(doing, call).await?.yes_or_no().map_err(self.misread(doing))
    }

    /// Runs the parts of a batch, several in one round trip. Returns the answers in the order of the batch.
    ///
    /// # Errors
    /// The first one; the other parts may have been run.
    pub(in crate::redis) async fn run_batch<A>(
        &self,
        doing: &'static str,
        parts: Vec<BatchCall<A>>,
    ) -> Result<Vec<A>, StoreError> {
        self.run_waiting(doing, parts, Wait::Primary).await
    }

    /// The same for what a push stores: waits until it is where the settings want it.
    ///
    /// # Errors
    /// As [`Self::run_batch`]; or [`StoreError::Unconfirmed`].
    pub(in crate::redis) async fn run_batch_acknowledged<A>(
        &self,
        doing: &'static str,
        parts: Vec<BatchCall<A>>,
    ) -> Result<Vec<A>, StoreError> {
        self.run_waiting(doing, parts, Wait::Acknowledgement).await
    }

    async fn run_waiting<A>(
        &self,
        doing: &'static str,
        parts: Vec<BatchCall<A>>,
        wait: Wait,
    ) -> Result<Vec<A>, StoreError> {
        let (mut parts, mut answers, mut unconfirmed) = (parts.into_iter().peekable(), Vec::new(), None);
        while parts.peek().is_some() {
            let (mut calls, mut asked) = (Vec::new(), Vec::new());
            for BatchCall { call, positions, read } in parts.by_ref().take(CALLS_AT_ONCE) {
                calls.push(call);
                asked.push((positions, read));
            }
            let replies = match self.link.run_waiting(doing, calls, wait).await {
                // It says that everything is stored: the rest has to be.
                Err(error @ StoreError::Unconfirmed { .. }) => {
                    unconfirmed.get_or_insert(error);
                    continue;
                }
                replies => replies?,
            };
            for ((positions, read), reply) in asked.into_iter().zip(replies) {
                let reply = Reply::new(reply?).and_then(|reply| read(reply, positions.len()));
                answers.extend(positions.into_iter().zip(reply.map_err(self.misread(doing))?));
            }
        }
        unconfirmed.map_or_else(|| Ok(in_order(answers)), Err)
    }
}

/// The positions of items that carry them.
pub(in crate::redis) fn positions<T>(part: &[(usize, T)]) -> Vec<usize> {
    part.iter().map(|(position, _)| *position).collect()
}

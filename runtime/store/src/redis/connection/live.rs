//! One connection, and calls of scripts on it: it teaches its server each script before it first calls it.

use std::collections::HashSet;
use std::sync::Arc;

use redis::{Arg, Cmd, Pipeline, RedisResult, ServerErrorKind, Value};

use super::confirm::Confirmation;
use super::server::Connection;
use super::wrong_type::name_keys;
use crate::redis::script::{Call, Script};

/// A connection, and the scripts that it has taught its server, by their hashes.
pub(in crate::redis) struct Live {
    pub(in crate::redis) connection: Connection,
    pub(in crate::redis) taught: parking_lot::Mutex<HashSet<&'static str>>,
    /// What the names of all keys begin with.
    pub(in crate::redis) prefix: Arc<str>,
    /// Set if pushes wait for more than the primary.
    pub(in crate::redis) confirmation: Option<Arc<Confirmation>>,
}

/// Whether a server of a cluster shall answer for a slot that it is about to get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::redis) enum Asking {
    No,
    Yes,
}

impl Live {
    pub(in crate::redis) async fn run(&self, calls: Vec<Call>, asking: Asking) -> RedisResult<Vec<RedisResult<Value>>> {
        let mut pipeline = Pipeline::with_capacity(calls.len());
        let mut scripts = Vec::with_capacity(calls.len());
        for call in calls {
            if let Some(script) = call.script {
                self.teach(script).await?;
            }
            scripts.push(call.script);
            add(&mut pipeline, call.command, asking);
        }
        let mut connection = self.connection.commands.clone();
        let mut answers: Vec<RedisResult<Value>> = pipeline.ignore_errors().query_async(&mut connection).await?;

        // Another client made the server forget its scripts: repeat what it did not run, with the text of the script, so that it does not
        // matter whether the server forgets it again.
        let mut again = Pipeline::new();
        let mut refused = Vec::new();
        let commands = pipeline.cmd_iter().filter(|command| !is_asking(command));
        for ((answer, script), command) in answers.iter_mut().zip(scripts).zip(commands) {
            if let Some(script) = script
                && matches!(answer, Err(error) if error.kind() == ServerErrorKind::NoScript.into())
            {
                self.taught.lock().remove(script.hash.as_str());
                add(&mut again, script.with_text(command), asking);
                refused.push(answer);
            }
        }
        if !refused.is_empty() {
            let repeated: Vec<RedisResult<Value>> = again.ignore_errors().query_async(&mut connection).await?;
            refused.into_iter().zip(repeated).for_each(|(answer, repeated)| *answer = repeated);
        }
        let commands = pipeline.cmd_iter().filter(|command| !is_asking(command));
        name_keys(&mut connection, &self.prefix, commands, &mut answers).await;
        Ok(answers)
    }

    /// Before the first call, and not when one was refused: if another client teaches the server in the midst of a pipeline,
    /// its first calls are refused, its last ones are not, and what is repeated would come behind them.
    async fn teach(&self, script: &'static Script) -> RedisResult<()> {
        let hash = script.hash.as_str();
        let known = self.taught.lock().contains(hash);
        if !known {
            script.load(&mut self.connection.commands.clone()).await?;
            self.taught.lock().insert(hash);
        }
        Ok(())
    }
}

const ASKING: &str = "ASKING";

fn add(pipeline: &mut Pipeline, command: Cmd, asking: Asking) {
    if asking == Asking::Yes {
        // It holds for the next command alone.
        pipeline.cmd(ASKING).ignore();
    }
    pipeline.add_command(command);
}

fn is_asking(command: &Cmd) -> bool {
    command.args_iter().next() == Some(Arg::Simple(ASKING.as_bytes()))
}

//! The scripts, and a call of one on its way to the server.

use std::sync::LazyLock;

use gristmill_core::job::Name;
use redis::{Cmd, ToRedisArgs};

/// A script, put together and hashed once per process.
pub(super) type Script = LazyLock<redis::Script>;

/// A script, put together from its file and those before it that it builds upon. All build upon the prelude.
macro_rules! script {
    ($($file:literal),+) => {
        LazyLock::new(|| redis::Script::new(concat!(include_str!("lua/prelude.lua"), $(include_str!($file)),+)))
    };
}

pub(super) static ACK: Script = script!("lua/finish.lua", "lua/ack.lua");
pub(super) static ADOPT_WAITING: Script = script!("lua/waiting.lua", "lua/adopt.lua", "lua/adopt_waiting.lua");
pub(super) static HEARTBEAT: Script = script!("lua/heartbeat.lua");
pub(super) static CANCEL: Script = script!("lua/waiting.lua", "lua/finish.lua", "lua/cancel.lua");
pub(super) static CHECKPOINT: Script = script!("lua/checkpoint.lua");
pub(super) static CLAIM: Script = script!("lua/adopt.lua", "lua/turns.lua", "lua/claim.lua");
pub(super) static DELETE_DEAD: Script = script!("lua/finish.lua", "lua/delete_dead.lua");
pub(super) static FORGET_TOPIC: Script = script!("lua/waiting.lua", "lua/forget_topic.lua");
pub(super) static LOCK_MOVE: Script = script!("lua/lock_move.lua");
pub(super) static EXTEND: Script = script!("lua/extend.lua");
pub(super) static REMOVE_EXPORTED: Script = script!("lua/waiting.lua", "lua/finish.lua", "lua/remove_exported.lua");
pub(super) static LIST_LINE: Script = script!("lua/list.lua", "lua/list_line.lua");
pub(super) static LIST_RUNNING: Script = script!("lua/list.lua", "lua/list_running.lua");
pub(super) static LIST_SORTED: Script = script!("lua/list.lua", "lua/list_sorted.lua");
pub(super) static POLL_RAW: Script = script!("lua/waiting.lua", "lua/poll_raw.lua");
pub(super) static MIGRATE: Script = script!("lua/waiting.lua", "lua/migrate.lua");
pub(super) static OLDEST: Script = script!("lua/oldest.lua");
pub(super) static OVERDUE: Script = script!("lua/overdue.lua");
pub(super) static PAUSE: Script = script!("lua/waiting.lua", "lua/pause.lua");
pub(super) static SET_PLACEMENT: Script = script!("lua/set_placement.lua");
pub(super) static PUSH: Script = script!("lua/waiting.lua", "lua/insert.lua", "lua/push.lua");
pub(super) static RESPAWN: Script = script!("lua/waiting.lua", "lua/insert.lua", "lua/respawn.lua");
pub(super) static SETTLE: Script = script!("lua/waiting.lua", "lua/insert.lua", "lua/finish.lua", "lua/settle.lua");
pub(super) static SILENT_WORKERS: Script = script!("lua/silent_workers.lua");
pub(super) static SWEEP: Script = script!("lua/waiting.lua", "lua/insert.lua", "lua/finish.lua", "lua/sweep.lua");
pub(super) static IMPORT: Script = script!("lua/waiting.lua", "lua/insert.lua", "lua/import.lua");
pub(super) static TOKEN_ADD: Script = script!("lua/token_add.lua");
pub(super) static TOKEN_LIFT: Script = script!("lua/token_lift.lua");
pub(super) static TOKEN_LIMIT: Script = script!("lua/token_limit.lua");
pub(super) static TOKEN_REVOKE: Script = script!("lua/token_revoke.lua");

/// A call of a script. What its keys and arguments mean stands at the head of its file.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) script: &'static Script,
    pub(super) command: Cmd,
}

impl Call {
    /// A call with all of its keys and none of its arguments.
    pub(super) fn new(script: &'static Script, keys: &[String]) -> Self {
        let mut command = redis::cmd("EVALSHA");
        command.arg(script.get_hash()).arg(keys.len()).arg(keys);
        Self { script, command }
    }

    /// The names of topics, and how many they are.
    pub(super) fn topics(&mut self, topics: &[&Name]) -> &mut Self {
        self.arg(topics.len()).arg(topics.iter().map(|topic| topic.as_str()).collect::<Vec<_>>())
    }

    pub(super) fn arg(&mut self, argument: impl ToRedisArgs) -> &mut Self {
        self.command.arg(argument);
        self
    }
}

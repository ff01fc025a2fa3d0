//! The scripts, and a call of one on its way to the server.

use std::sync::LazyLock;

use super::holder::Holder;
use gristmill_core::job::Name;
use redis::{Cmd, ToRedisArgs};

/// A script, put together and hashed once per process.
pub(super) type Script = LazyLock<redis::Script>;

/// A script, put together from its file in `lua/` and those before it that it builds upon. All build upon the prelude.
macro_rules! script {
    ($($file:literal),+) => {{
        static SCRIPT: $crate::redis::script::Script = std::sync::LazyLock::new(|| {
            redis::Script::new(concat!(
                include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/redis/lua/prelude.lua")),
                $(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/redis/lua/", $file))),+
            ))
        });
        &SCRIPT
    }};
}
pub(super) use script;

/// A call of a script, or a plain command. What a script's keys and arguments mean stands at the head of its file.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) script: Option<&'static Script>,
    pub(super) command: Cmd,
}

impl Call {
    /// A call with all of its keys and none of its arguments.
    pub(super) fn new(script: &'static Script, keys: &[String]) -> Self {
        let mut command = redis::cmd("EVALSHA");
        command.arg(script.get_hash()).arg(keys.len()).arg(keys);
        Self { script: Some(script), command }
    }

    pub(super) fn plain(command: Cmd) -> Self {
        Self { script: None, command }
    }

    /// The holders of jobs, and how many they are.
    pub(super) fn holders(&mut self, holders: &[Holder<'_>]) -> &mut Self {
        self.arg(holders.len()).arg(holders.iter().map(|holder| holder.text()).collect::<Vec<_>>())
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

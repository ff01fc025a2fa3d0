//! The scripts, and a call of one on its way to the server.

pub(super) mod reply;
pub(super) mod run;

use std::fmt;
use std::sync::LazyLock;

use super::holder::Holder;
use gristmill_core::job::Name;
use redis::aio::ConnectionLike;
use redis::{Arg, Cmd, RedisResult, ToRedisArgs};

/// A script, put together and hashed once per process.
pub(super) type Script = LazyLock<Source>;

/// The text of a script, and its hash in hexadecimal digits.
pub(super) struct Source {
    pub(super) code: &'static str,
    pub(super) hash: String,
}

impl Source {
    pub(super) fn new(code: &'static str) -> Self {
        Self { code, hash: redis::Script::new(code).get_hash().to_owned() }
    }

    pub(super) async fn load(&self, connection: &mut impl ConnectionLike) -> RedisResult<()> {
        redis::cmd("SCRIPT").arg("LOAD").arg(self.code).query_async(connection).await
    }

    /// The same call, with the script in it: a server that has forgotten the script runs it all the same.
    pub(super) fn with_text(&self, call: &Cmd) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(self.code);
        for word in call.args_iter().skip(2) {
            match word {
                Arg::Simple(word) => command.arg(word),
                _ => command.arg(b""),
            };
        }
        command
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hash)
    }
}

/// A script, put together from its file and those before it that it builds upon, each by its path below `redis/`. All build upon
/// `script/basics.lua`, then upon the files before the `;`, then upon the prelude. A file before the `;` that does all there is to do ends the
/// script: what comes after it is not even looked at.
macro_rules! script {
    ($($file:literal),+) => { script!("signals/waiters.lua", "signals/wake.lua"; $($file),+) };
    ($($first:literal),+; $($file:literal),+) => {{
        static SCRIPT: $crate::redis::script::Script = std::sync::LazyLock::new(|| {
            $crate::redis::script::Source::new(concat!(
                include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/redis/script/basics.lua")),
                $(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/redis/", $first)),)+
                include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/redis/script/prelude.lua")),
                $(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/redis/", $file))),+
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
        command.arg(&script.hash).arg(keys.len()).arg(keys);
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

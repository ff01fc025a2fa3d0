//! A place where gristmill is set up: a folder with a manifest, handlers and a store, and commands as a user types them.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use gristmill::server::RemoteStore;
use gristmill::store::StoreError;
use gristmill::store::embedded::{EmbeddedStore, owner};
use gristmill::store::prelude::*;
use gristmill::store::redis::RedisStore;
use serde_json::Value;
use tempfile::TempDir;

use crate::process::{Process, command, run_command};
use crate::redis::Redis;
use crate::test_runner::{drop_in, with_clock};
use crate::wait::{SOON, until};

/// All of it is gone when dropped.
#[derive(Debug)]
pub struct TestProject {
    /// Where jobs are, if not in the file beside the manifest.
    pub redis: Option<Redis>,
    folder: TempDir,
}

/// For the manifest of every server that is not the only one on its machine.
pub const FREE_PORT: &str = "[http]\nlisten = \"127.0.0.1:0\"\n";

/// What a command said when it ended.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub out: Vec<u8>,
    pub err: String,
}

impl TestProject {
    /// On the embedded store, which is the default. The manifest gets a `[server]` and an `[http]`; components are given by
    /// name and path.
    pub async fn new(manifest: &str, handlers: &[(&str, &str)]) -> Self {
        Self::with(None, manifest, handlers)
    }

    /// On a Redis of its own: the manifest gets a `[store]` as well.
    pub async fn on_redis(manifest: &str, handlers: &[(&str, &str)]) -> Self {
        Self::with(Some(Redis::start().await), manifest, handlers)
    }

    fn with(redis: Option<Redis>, manifest: &str, handlers: &[(&str, &str)]) -> Self {
        let project = Self { redis, folder: TempDir::with_prefix("gristmill-").unwrap() };
        std::fs::create_dir(project.handlers()).unwrap();
        for (name, component) in handlers {
            project.drop_in(name, &std::fs::read(component).unwrap());
        }
        let store = project.redis.as_ref().map(|redis| format!("[store]\nurl = \"{}\"\n", redis.url()));
        let store = store.unwrap_or_default();
        let manifest = with_clock(&format!("[server]\nconcurrency = 16\n{FREE_PORT}{store}{manifest}"));
        project.write_manifest(&manifest);
        project
    }

    /// The file that the jobs are in, unless they are in a Redis.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("gristmill.db")
    }

    /// Where the server of the embedded store answers, if there is one.
    pub fn address(&self) -> Option<SocketAddr> {
        owner(&self.file()).unwrap()?.http
    }

    /// The store itself. A file must have no runner.
    pub async fn store_at_rest(&self) -> Arc<dyn Store> {
        match &self.redis {
            Some(redis) => Arc::new(RedisStore::connect(&redis.url(), "gm").await.unwrap()),
            None => {
                let opened = async || match EmbeddedStore::open(&self.file(), Default::default()).await {
                    Err(StoreError::Owned { .. }) => None,
                    opened => Some(opened.unwrap()),
                };
                Arc::new(until("the file to be free", SOON, opened).await)
            }
        }
    }

    /// The store while runners may work on it; `None` while that of a file does not answer.
    pub async fn store_in_use(&self) -> Option<Arc<dyn Produce>> {
        match &self.redis {
            Some(redis) => Some(Arc::new(RedisStore::connect(&redis.url(), "gm").await.ok()?)),
            None => Some(Arc::new(RemoteStore::connect(self.address()?).await.ok()?)),
        }
    }

    pub fn manifest(&self) -> PathBuf {
        self.folder.path().join("gristmill.toml")
    }

    pub fn handlers(&self) -> PathBuf {
        self.folder.path().join("handlers")
    }

    /// Replaces the whole manifest.
    pub fn write_manifest(&self, text: &str) {
        std::fs::write(self.manifest(), text).unwrap();
    }

    pub fn drop_in(&self, name: &str, component: &[u8]) {
        drop_in(&self.handlers(), name, component);
    }

    /// A runner that is ready for jobs, and has compiled its handlers.
    pub async fn serve(&self) -> Process {
        self.serve_with(&["--log", "gristmill=debug"]).await
    }

    /// A runner with these options.
    pub async fn serve_with(&self, options: &[&str]) -> Process {
        self.serve_by(run_command(&self.manifest(), options)).await
    }

    /// A runner by a command of the caller's, which becomes `gristmill run`.
    pub async fn serve_by(&self, command: Command) -> Process {
        // Those who ran before have said so, too.
        let times = |log: &[u8]| String::from_utf8_lossy(log).matches("ready for jobs").count();
        let before = std::fs::read(self.folder.path().join("run.log")).map_or(0, |log| times(&log));
        let mut process = Process::start(command, &self.manifest());
        until("the runner to be ready", SOON, async || {
            let ended = process.ended();
            assert!(ended.is_none(), "the runner ended: {ended:?}\n{}", process.log());
            (times(process.log().as_bytes()) > before).then_some(())
        })
        .await;
        until("the handlers to be compiled", 4 * SOON, async || has_compiled(&process.log()).then_some(())).await;
        process
    }

    /// Starts a command, and does not wait for its end.
    pub fn spawn(&self, arguments: &[&str]) -> Child {
        command(&self.manifest()).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Runs a command to its end, with nothing on standard input.
    pub fn run(&self, arguments: &[&str]) -> Said {
        self.pipe(b"", arguments)
    }

    /// Runs a command to its end, with this piped into it.
    pub fn pipe(&self, input: &[u8], arguments: &[&str]) -> Said {
        let mut command = command(&self.manifest());
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // Whoever refuses its arguments does not read.
        drop(child.stdin.take().unwrap().write_all(input));
        let output = child.wait_with_output().unwrap();
        Said {
            code: output.status.code().expect("it ends by itself"),
            out: output.stdout,
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Said {
    /// Standard output, where the command was to succeed.
    pub fn done(&self) -> String {
        self.ended(0);
        self.text()
    }

    /// Holds the command to its exit code.
    pub fn ended(&self, code: i32) -> &Self {
        assert_eq!(self.code, code, "{}\n{}", self.text(), self.err);
        self
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.out.clone()).unwrap_or_else(|error| format!("{error}"))
    }

    /// One document a line.
    pub fn documents(&self) -> Vec<Value> {
        self.text().lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
    }

    /// The only document.
    pub fn document(&self) -> Value {
        let [document] = self.documents().try_into().unwrap_or_else(|_| panic!("not one document: {self:?}"));
        document
    }
}

/// The names of a document's fields, in order of the alphabet.
pub fn fields(document: &Value) -> Vec<&str> {
    document.as_object().unwrap().keys().map(String::as_str).collect()
}

/// Whether as many handlers were loaded or refused since the last start as had to be compiled then.
fn has_compiled(log: &str) -> bool {
    let Some((_, start)) = log.rsplit_once("ready for jobs") else { return false };
    let number = start.split_once("to_compile").map(|(_, number)| number.trim_start_matches(['"', ':', '=']));
    let number = number.and_then(|number| number.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok());
    let ended = start.matches("handler loaded").count() + start.matches("component refused").count();
    ended >= number.unwrap_or(0)
}

//! A place where gristmill is set up: a folder with a manifest and handlers, a Redis, and commands as a user types them.

use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;
use tempfile::TempDir;

use crate::mill::drop_in;
use crate::process::{Process, command};
use crate::redis::Redis;
use crate::wait::{SOON, until};

/// All of it is gone when dropped.
#[derive(Debug)]
pub struct Site {
    pub redis: Redis,
    folder: TempDir,
}

/// What a command said when it ended.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub out: Vec<u8>,
    pub err: String,
}

impl Site {
    /// The manifest gets a `[server]` and a `[store]`; components are given by name and path.
    pub async fn new(manifest: &str, handlers: &[(&str, &str)]) -> Self {
        let site = Self { redis: Redis::start().await, folder: TempDir::with_prefix("gristmill-").unwrap() };
        std::fs::create_dir(site.handlers()).unwrap();
        for (name, component) in handlers {
            site.drop_in(name, &std::fs::read(component).unwrap());
        }
        let url = site.redis.url();
        site.write_manifest(&format!("[server]\nconcurrency = 16\n[store]\nurl = \"{url}\"\n{manifest}"));
        site
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

    /// A runner that is ready for jobs.
    pub async fn serve(&self) -> Process {
        self.serve_with(&["--log", "gristmill=debug"]).await
    }

    /// A runner with these options.
    pub async fn serve_with(&self, options: &[&str]) -> Process {
        let process = Process::run_with(&self.manifest(), options);
        until("the runner to be ready", SOON, async || process.log().contains("ready for jobs").then_some(())).await;
        process
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

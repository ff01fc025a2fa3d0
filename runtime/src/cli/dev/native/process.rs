//! A process that does jobs, one after the other. Each line on its standard input and output is a JSON document.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::super::super::project::Group;
use gristmill_core::admission::NoFollowUp;
use gristmill_core::job::{Job, Payload};
use gristmill_core::outcome::FailureDetail;
use gristmill_runner::native::{CheckpointError, HandlerError, LogLine, NativeJob, Output, StateError};

/// Ended when dropped.
#[derive(Debug)]
pub(super) struct Process {
    group: Group,
    child: Child,
    to: ChildStdin,
    from: Lines<BufReader<ChildStdout>>,
}

/// A job, as the process gets it. Bytes are payloads, since these are written as base64.
#[derive(Serialize)]
struct Request<'a> {
    job: &'a Job,
    attempt: u32,
    max_attempts: u32,
    deadline_ms: u64,
    now_ms: u64,
    checkpoint: Option<Payload>,
    config: &'a BTreeMap<String, String>,
    secrets: BTreeMap<&'a str, Payload>,
}

/// What the process says.
#[derive(Deserialize)]
#[serde(tag = "say", rename_all = "kebab-case", deny_unknown_fields)]
enum Said {
    /// Once, before the first job.
    Loaded,
    Log {
        level: String,
        source: String,
        message: String,
        fields: Vec<(String, String)>,
    },
    // Each of these is answered: `{"ok": …}`, or `{"code": …, "message": …}`.
    IsCancelled,
    Checkpoint {
        state: Payload,
    },
    State,
    SetState {
        value: Option<Payload>,
    },
    Enqueue {
        job: Value,
    },
    // One of these ends the attempt.
    Complete {
        result: Option<Payload>,
    },
    Snooze {
        ms: u64,
    },
    Retry {
        detail: FailureDetail,
        after_ms: Option<u64>,
    },
    Reject {
        detail: FailureDetail,
    },
}

type Answer = Result<Value, (&'static str, String)>;

impl Process {
    /// Runs the command, before which variables may be set (`A=1 python …`), in the project's folder. Returns once the process has imported the handler.
    ///
    /// # Errors
    /// It ends before that. It has written why to standard error, which it shares with this command.
    pub(super) async fn start(line: &str, project: &Path) -> anyhow::Result<Self> {
        let mut child = Command::new("sh")
            .args(["-euc", &format!("exec env {line}")])
            .current_dir(project)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .context("failed to start `sh`")?;
        let (to, from) = (child.stdin.take().context("no pipe")?, child.stdout.take().context("no pipe")?);
        let mut process = Self { group: Group::of(&child), child, to, from: BufReader::new(from).lines() };
        match process.next().await {
            Ok(Said::Loaded) => Ok(process),
            Ok(_) => bail!("`{line}` does not begin with {{\"say\": \"loaded\"}}"),
            Err(error) => bail!("the handler cannot be imported: {}", process.end(error).await),
        }
    }

    /// Whether it is still there.
    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Has it do one attempt.
    ///
    /// # Errors
    /// It has ended, or says what is no line of ours: it can do no other.
    pub(super) async fn attempt(&mut self, job: &NativeJob) -> io::Result<Result<Output, HandlerError>> {
        self.send(&Request::of(job)).await?;
        loop {
            let answer: Answer = match self.next().await? {
                Said::Log { level, source, message, fields } => {
                    job.log(line(&level, &source, message, fields));
                    continue;
                }
                Said::Loaded => return Err(io::Error::new(io::ErrorKind::InvalidData, "`loaded` within a job")),
                Said::IsCancelled => Ok(job.is_cancelled().into()),
                Said::Checkpoint { state } => {
                    let saved = job.save_checkpoint(&state.data).await;
                    let code = |error: &CheckpointError| match error {
                        CheckpointError::TooLarge(_) => "too-large",
                        CheckpointError::NotSaved(_) => "unavailable",
                    };
                    saved.map(|()| Value::Null).map_err(|error| (code(&error), error.to_string()))
                }
                Said::State => job.state().await.map(|state| json!(state.map(bytes))).map_err(state_error),
                Said::SetState { value } => {
                    let set = job.set_state(value.as_ref().map(|value| value.data.as_slice()));
                    set.map(|()| Value::Null).map_err(state_error)
                }
                Said::Enqueue { job: new } => {
                    let new = serde_json::from_value(new).map_err(|error| ("refused", error.to_string()));
                    let code = |refused: &NoFollowUp| match refused {
                        NoFollowUp::UnknownTopic(_) => "unknown-topic",
                        _ => "refused",
                    };
                    let id = new.and_then(|new| job.enqueue(new).map_err(|no| (code(&no), no.to_string())));
                    id.map(|id| id.as_str().into())
                }
                Said::Complete { result } => return Ok(Ok(Output::Complete(result))),
                Said::Snooze { ms } => return Ok(Ok(Output::Snooze(Duration::from_millis(ms)))),
                Said::Retry { detail, after_ms } => {
                    return Ok(Err(HandlerError::Retry { detail, after: after_ms.map(Duration::from_millis) }));
                }
                Said::Reject { detail } => return Ok(Err(HandlerError::Reject(detail))),
            };
            self.answer(answer).await?;
        }
    }

    /// What becomes of a job whose process ended.
    pub(super) async fn ended(self, error: io::Error) -> HandlerError {
        let message = format!("the handler's process: {}", self.end(error).await);
        let detail = FailureDetail { code: "process-ended".into(), message, context: None };
        HandlerError::Retry { detail, after: None }
    }

    async fn end(self, error: io::Error) -> String {
        let Self { group, mut child, to, from } = self;
        drop((to, from));
        if error.kind() == io::ErrorKind::InvalidData {
            return error.to_string();
        }
        let status = child.wait().await;
        group.has_ended();
        status.map_or_else(|error| error.to_string(), |status| format!("it ended with {status}"))
    }

    async fn answer(&mut self, answer: Answer) -> io::Result<()> {
        let document = match answer {
            Ok(value) => json!({ "ok": value }),
            Err((code, message)) => json!({ "code": code, "message": message }),
        };
        self.send(&document).await
    }

    async fn send(&mut self, document: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(document)?;
        line.push(b'\n');
        self.to.write_all(&line).await
    }

    async fn next(&mut self) -> io::Result<Said> {
        let line = self.from.next_line().await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let unknown = |error| io::Error::new(io::ErrorKind::InvalidData, format!("it said what is no answer: {error}"));
        serde_json::from_str(&line).map_err(unknown)
    }
}

impl<'a> Request<'a> {
    fn of(job: &'a NativeJob) -> Self {
        Self {
            job: job.job(),
            attempt: job.attempt(),
            max_attempts: job.max_attempts(),
            deadline_ms: job.deadline().as_millis(),
            now_ms: job.now().as_millis(),
            checkpoint: job.checkpoint().map(|state| bytes(state.to_vec())),
            config: job.settings(),
            secrets: job.secrets().into_iter().map(|(name, secret)| (name, bytes(secret.to_vec()))).collect(),
        }
    }
}

fn bytes(data: Vec<u8>) -> Payload {
    Payload { data, content_type: None }
}

fn state_error(error: StateError) -> (&'static str, String) {
    let code = match error {
        StateError::NoKey => "no-key",
        StateError::TooLarge(_) => "state-too-large",
        StateError::Unavailable(_) => "state-unavailable",
    };
    (code, error.to_string())
}

fn line(level: &str, source: &str, message: String, fields: Vec<(String, String)>) -> LogLine {
    let source = ["stdout", "stderr", "progress"].into_iter().find(|known| *known == source).unwrap_or("log");
    LogLine { level: level.parse().unwrap_or(tracing::Level::INFO), source, message, fields }
}

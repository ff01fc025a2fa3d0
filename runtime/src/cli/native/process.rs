//! A process that does jobs, one after the other. Each line on its standard input and output is a JSON document.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::super::project::Group;
use super::{Host, HostAnswer, Question};
use gristmill_core::job::Payload;
use gristmill_core::outcome::FailureDetail;
use gristmill_runner::native::{HandlerError, LogLine, Output};

/// Informs a process that it replays, and when a debugger takes over.
const REPLAY: &str = "GRISTMILL_REPLAY";

/// Ended when dropped.
#[derive(Debug)]
pub(in crate::cli) struct Process {
    /// None: it is in that of this command.
    group: Option<Group>,
    child: Child,
    to: ChildStdin,
    from: Lines<BufReader<ChildStdout>>,
}

/// What the process says.
#[derive(Deserialize)]
#[serde(tag = "say", rename_all = "kebab-case", deny_unknown_fields)]
enum Said {
    /// Once, before the first job.
    Loaded {
        /// It takes all that it sees from the recording.
        #[serde(default)]
        replays: bool,
    },
    Log {
        level: String,
        source: String,
        message: String,
        fields: Vec<(String, String)>,
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
    #[serde(untagged)]
    Asked(Question),
}

/// What a process is started for.
#[derive(Debug, Clone, Copy)]
pub(in crate::cli) enum Mode<'a> {
    /// The jobs of a runner.
    Jobs,
    /// An attempt that was recorded, with these variables. What the handler sees comes from the recording.
    Replay { debugger: Debugger, env: &'a BTreeMap<String, String> },
}

/// When a process that replays lets a debugger take over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Debugger {
    /// Never.
    Off,
    /// At a breakpoint of the handler's, and at the exception that ends it.
    AtTerminal,
    /// Before the handler's first line, too.
    AtFirst,
}

impl Debugger {
    /// As the SDKs know it.
    const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::AtTerminal => "terminal",
            Self::AtFirst => "first",
        }
    }
}

impl Process {
    /// Runs the command, before which variables may be set (`A=1 python …`), in the project's folder. Returns once the process has imported the handler.
    ///
    /// One that replays has the terminal as this command has it, which a process of another group could not read from.
    ///
    /// # Errors
    /// It ends before that, and has written why to standard error, which it shares with this command; or its SDK cannot replay.
    pub(in crate::cli) async fn start(line: &str, project: &Path, mode: Mode<'_>) -> anyhow::Result<Self> {
        let mut command = Command::new("sh");
        command
            .args(["-euc", &format!("exec env {line}")])
            .current_dir(project)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let does_jobs = matches!(mode, Mode::Jobs);
        match mode {
            Mode::Jobs => command.process_group(0).env_remove(REPLAY),
            Mode::Replay { debugger, env } => command.envs(env).env(REPLAY, debugger.name()),
        };
        let mut child = command.spawn().context("failed to start `sh`")?;
        let (to, from) = (child.stdin.take().context("no pipe")?, child.stdout.take().context("no pipe")?);
        let group = does_jobs.then(|| Group::of(&child));
        let mut process = Self { group, child, to, from: BufReader::new(from).lines() };
        match process.next().await {
            Ok(Said::Loaded { replays }) if replays || does_jobs => Ok(process),
            Ok(Said::Loaded { .. }) => bail!(
                "the SDK of the project cannot replay: it would send requests and see other times\nbring it to this version with `gristmill update`"
            ),
            Ok(_) => bail!("`{line}` does not begin with {{\"say\": \"loaded\"}}"),
            Err(error) => bail!("the handler cannot be imported: {}", process.end(error).await),
        }
    }

    /// Whether it is still there.
    pub(in crate::cli) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Has it do one attempt.
    ///
    /// # Errors
    /// It has ended, or says what is no line of ours: it can do no other.
    pub(in crate::cli) async fn attempt(&mut self, host: &mut impl Host) -> io::Result<Result<Output, HandlerError>> {
        self.send(&host.request()).await?;
        loop {
            match self.next().await? {
                Said::Log { level, source, message, fields } => host.log(line(&level, &source, message, fields)),
                Said::Loaded { .. } => {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "`loaded` within a job"));
                }
                Said::Asked(question) => {
                    let answer = host.answer(question).await;
                    self.answer(answer).await?;
                }
                Said::Complete { result } => return Ok(Ok(Output::Complete(result))),
                Said::Snooze { ms } => return Ok(Ok(Output::Snooze(Duration::from_millis(ms)))),
                Said::Retry { detail, after_ms } => {
                    return Ok(Err(HandlerError::Retry { detail, after: after_ms.map(Duration::from_millis) }));
                }
                Said::Reject { detail } => return Ok(Err(HandlerError::Reject(detail))),
            }
        }
    }

    /// What becomes of a job whose process ended.
    pub(in crate::cli) async fn ended(self, error: io::Error) -> HandlerError {
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
        if let Some(group) = group {
            group.has_ended();
        }
        status.map_or_else(|error| error.to_string(), |status| format!("it ended with {status}"))
    }

    async fn answer(&mut self, answer: HostAnswer) -> io::Result<()> {
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

fn line(level: &str, source: &str, message: String, fields: Vec<(String, String)>) -> LogLine {
    let source = ["stdout", "stderr", "progress"].into_iter().find(|known| *known == source).unwrap_or("log");
    LogLine { level: level.parse().unwrap_or(tracing::Level::INFO), source, message, fields }
}

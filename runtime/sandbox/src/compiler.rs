//! The compiler, seen from the parent: a child process that is killed when it takes too long.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use rustix::process::Signal;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;

use super::error::LoadError;
use super::settings::CompilerSettings;

/// The subcommand of `gristmill` that calls [`super::compile_child`], followed by bytes of memory and seconds of CPU.
pub const COMPILE_SUBCOMMAND: &str = "compile-component";

/// Compiling uses every core for itself; a second one may overtake a long one.
const COMPILES_AT_ONCE: usize = 2;

/// An artifact has about twice to ten times the size of its component, and some overhead.
const ARTIFACT_BYTES_PER_COMPONENT_BYTE: u64 = 20;
const ARTIFACT_BYTES_MIN: u64 = 16 << 20;

const MESSAGE_BYTES_MAX: u64 = 16 << 10;

/// Compiles in child processes, at most two at once.
#[derive(Debug, Clone)]
pub(super) struct Compiler {
    settings: CompilerSettings,
    mode: Mode,
    permits: Arc<Semaphore>,
}

#[derive(Debug, Clone)]
enum Mode {
    /// The program and the arguments before the limits.
    Child(Vec<OsString>),
    /// Unit tests have no binary to start.
    #[cfg(test)]
    InProcess,
}

impl Compiler {
    pub(super) fn new(settings: CompilerSettings) -> Self {
        let command = vec![settings.program.clone().into(), COMPILE_SUBCOMMAND.into()];
        Self { settings, mode: Mode::Child(command), permits: Arc::new(Semaphore::new(COMPILES_AT_ONCE)) }
    }

    pub(super) fn component_bytes(&self) -> u64 {
        self.settings.component_bytes
    }

    /// The artifact of a component. Cancel-safe: dropping the future kills the child.
    pub(super) async fn compile(&self, wasm: &[u8]) -> Result<Vec<u8>, LoadError> {
        // Never closed, so it never fails; if it did, compiling one more would be no harm.
        let _permit = self.permits.acquire().await.ok();
        match &self.mode {
            Mode::Child(command) => self.run_in_time(command, wasm).await,
            #[cfg(test)]
            Mode::InProcess => tests::compile_in_process(wasm),
        }
    }

    async fn run_in_time(&self, command: &[OsString], wasm: &[u8]) -> Result<Vec<u8>, LoadError> {
        let limit = self.settings.timeout;
        let run = tokio::time::timeout(limit, self.run(command, wasm));
        run.await.unwrap_or(Err(LoadError::CompileTimeout { limit }))
    }

    async fn run(&self, command: &[OsString], wasm: &[u8]) -> Result<Vec<u8>, LoadError> {
        let failed = |source| LoadError::RunCompiler { program: self.settings.program.clone(), source };
        let mut child = self.spawn(command).map_err(failed)?;
        let artifact_max =
            (wasm.len() as u64).saturating_mul(ARTIFACT_BYTES_PER_COMPONENT_BYTE).saturating_add(ARTIFACT_BYTES_MIN);
        let (input, artifact, message) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (_, artifact, message) =
            tokio::join!(feed(input, wasm), read(artifact, artifact_max), read(message, MESSAGE_BYTES_MAX),);
        let (artifact, message) = (artifact.map_err(failed)?, message.map_err(failed)?);
        if artifact.len() as u64 > artifact_max {
            return Err(LoadError::Compile { problem: format!("its artifact has more than {artifact_max} bytes") });
        }
        let status = child.wait().await.map_err(failed)?;
        self.judge(status, artifact, &message)
    }

    fn spawn(&self, command: &[OsString]) -> io::Result<Child> {
        let (program, arguments) = command.split_first().ok_or_else(|| io::Error::other("no program was given"))?;
        Command::new(program)
            .args(arguments)
            .arg(self.settings.memory_bytes.to_string())
            .arg(self.cpu_seconds().to_string())
            // A child that reads what strangers wrote needs none of our secrets.
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
    }

    fn cpu_seconds(&self) -> u64 {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
        self.settings.timeout.as_secs().max(1).saturating_mul(cores)
    }

    /// Exit code 0: the artifact. 1: the component is refused, and standard error says why. Anything else: it died.
    fn judge(&self, status: ExitStatus, artifact: Vec<u8>, message: &[u8]) -> Result<Vec<u8>, LoadError> {
        let message = String::from_utf8_lossy(message);
        let mut lines = message.lines().map(str::trim).filter(|line| !line.is_empty());
        let first_line = lines.next().unwrap_or_default();
        if status.signal() == Some(Signal::XCPU.as_raw()) {
            return Err(LoadError::CompileTimeout { limit: self.settings.timeout });
        }
        match status.code() {
            Some(0) => Ok(artifact),
            Some(1) if !first_line.is_empty() => Err(LoadError::Compile { problem: first_line.to_owned() }),
            _ => Err(LoadError::CompilerDied {
                how: match (first_line, lines.next()) {
                    ("", _) => status.to_string(),
                    (only, None) => format!("{status}: {only}"),
                    // A panic says where it was in one line, and what it was in the next.
                    (first, Some(second)) => format!("{status}: {first} {second}"),
                },
                memory_bytes: self.settings.memory_bytes,
            }),
        }
    }
}

/// Writes all and closes the pipe. That the child stopped reading is no error here: its exit status tells more.
async fn feed(input: Option<impl AsyncWriteExt + Unpin>, wasm: &[u8]) {
    if let Some(mut input) = input {
        let _ = input.write_all(wasm).await;
    }
}

/// Reads to the end, or one byte past `max`. Closing the pipe then stops a child that would write for ever.
async fn read(output: Option<impl AsyncRead + Unpin>, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(output) = output {
        output.take(max + 1).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A compiler that is a shell script.
    fn script(script: &str, timeout: Duration) -> Compiler {
        let settings = CompilerSettings { timeout, ..CompilerSettings::with_defaults("/bin/sh".into()) };
        let command = vec!["/bin/sh".into(), "-c".into(), script.into(), COMPILE_SUBCOMMAND.into()];
        Compiler { mode: Mode::Child(command), ..Compiler::new(settings) }
    }

    impl Compiler {
        pub(crate) fn in_process() -> Self {
            let settings = CompilerSettings::with_defaults("/nowhere".into());
            Self { mode: Mode::InProcess, ..Self::new(settings) }
        }
    }

    /// What the child does, without its limits.
    pub(super) fn compile_in_process(wasm: &[u8]) -> Result<Vec<u8>, LoadError> {
        let mut artifact = Vec::new();
        crate::compile_child::compile(wasm, &mut artifact)
            .map_err(|error| LoadError::Compile { problem: format!("{error:#}") })?;
        Ok(artifact)
    }

    const LONG: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn what_the_child_writes_is_the_artifact() {
        assert_eq!(script("cat", LONG).compile(b"wasm").await.unwrap(), b"wasm");
    }

    #[tokio::test]
    async fn the_child_is_told_its_limits() {
        let arguments = script("echo $0 $1", LONG).compile(b"").await.unwrap();
        assert_eq!(arguments, format!("{COMPILE_SUBCOMMAND} {}\n", 4_u64 << 30).as_bytes());
    }

    #[tokio::test]
    async fn a_refusal_is_the_first_line_of_standard_error() {
        let error = script("echo no good >&2; exit 1", LONG).compile(b"wasm").await.unwrap_err();
        assert_eq!(error.to_string(), "the component does not compile: no good");
    }

    #[tokio::test]
    async fn a_death_is_told_from_a_refusal() {
        let error = script("kill -9 $$", LONG).compile(b"wasm").await.unwrap_err();
        assert!(matches!(&error, LoadError::CompilerDied { how, .. } if how.contains("signal: 9")), "{error}");
    }

    #[tokio::test]
    async fn a_child_that_takes_too_long_is_killed() {
        let error = script("exec sleep 600", Duration::from_millis(50)).compile(b"wasm").await.unwrap_err();
        assert!(matches!(error, LoadError::CompileTimeout { .. }), "{error}");
        // By its own limit of CPU time, where this process stands still meanwhile.
        let error = script("kill -XCPU $$", LONG).compile(b"wasm").await.unwrap_err();
        assert!(matches!(error, LoadError::CompileTimeout { .. }), "{error}");
    }

    #[tokio::test]
    async fn the_last_words_of_a_child_that_panicked_are_told() {
        let panic = "printf '\\nthread main panicked at x.rs:1:\\nno room\\nnote: more\\n' >&2; exit 101";
        let error = script(panic, LONG).compile(b"wasm").await.unwrap_err().to_string();
        assert!(error.contains("exit status: 101: thread main panicked at x.rs:1: no room)"), "{error}");
    }

    #[tokio::test]
    async fn a_child_that_never_stops_writing_is_stopped() {
        let error = script("exec yes", LONG).compile(b"wasm").await.unwrap_err();
        assert!(error.to_string().contains("its artifact has more than"), "{error}");
    }

    #[tokio::test]
    async fn a_missing_program_is_named() {
        let settings = CompilerSettings::with_defaults("/nowhere/gristmill".into());
        let error = Compiler::new(settings).compile(b"wasm").await.unwrap_err();
        assert_eq!(error.to_string(), "the compiler /nowhere/gristmill cannot be run");
    }
}

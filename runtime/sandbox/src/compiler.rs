//! The compiler, seen from the sandbox: a child process that is killed when it takes too long, or a thread.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Once};
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::spawn_blocking;

use super::compile_child::artifact_of;
use super::compiled_functions::CompiledFunctions;
use super::error::LoadError;
use super::private_folder::{NewFile, WrittenFile};
use super::settings::{CompilerProcess, CompilerSettings};

/// The subcommand of `gristmill` that calls [`super::compile_child`], followed by bytes of memory and seconds of CPU.
pub const COMPILE_SUBCOMMAND: &str = "compile-component";

/// Components that a sandbox compiles at once. Compiling uses every core for itself; a second one may overtake a long one.
pub const COMPILES_AT_ONCE: usize = 2;

/// An artifact has about twice to ten times the size of its component, and some overhead.
const ARTIFACT_BYTES_PER_COMPONENT_BYTE: u64 = 20;
const ARTIFACT_BYTES_MIN: u64 = 16 << 20;

const MESSAGE_BYTES_MAX: u64 = 16 << 10;

/// Of an artifact that are in memory at once.
const PIECE_BYTES: usize = 1 << 20;

/// Bytes of the stack of a thread that compiles: as much as a main thread has.
const STACK_BYTES: usize = 8 << 20;

/// Compiles components, at most two at once.
#[derive(Debug, Clone)]
pub(super) struct Compiler {
    process: Process,
    timeout: Duration,
    component_bytes: u64,
    permits: Arc<Semaphore>,
}

#[derive(Debug, Clone)]
enum Process {
    Child(ChildCompiler),
    /// With what is kept of one component for the next.
    This(Option<Arc<CompiledFunctions>>),
}

impl Compiler {
    pub(super) fn new(settings: CompilerSettings) -> Self {
        let CompilerSettings { process, timeout, component_bytes } = settings;
        let process = match process {
            CompilerProcess::Child { program, memory_bytes } => {
                let arguments = vec![COMPILE_SUBCOMMAND.into()];
                Process::Child(ChildCompiler { program, arguments, memory_bytes, timeout })
            }
            CompilerProcess::This => Process::This(None),
            CompilerProcess::Incremental => Process::This(Some(Arc::default())),
        };
        Self { process, timeout, component_bytes, permits: Arc::new(Semaphore::new(COMPILES_AT_ONCE)) }
    }

    pub(super) fn component_bytes(&self) -> u64 {
        self.component_bytes
    }

    /// Writes the artifact of a component. Cancel-safe: dropping the future kills the child; a thread runs on to its end.
    pub(super) async fn compile(&self, wasm: &Arc<[u8]>, artifact: NewFile) -> Result<WrittenFile, LoadError> {
        // Never closed, so it never fails; if it did, compiling one more would be no harm.
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
        let compile = async {
            match &self.process {
                Process::Child(child) => child.run(wasm, artifact).await,
                Process::This(known) => compile_on_thread(Arc::clone(wasm), known.clone(), artifact, permit).await,
            }
        };
        tokio::time::timeout(self.timeout, compile)
            .await
            .unwrap_or(Err(LoadError::CompileTimeout { limit: self.timeout }))
    }
}

/// Holds the permit until the thread is done, so that no more than two threads compile even if callers give up.
async fn compile_on_thread(
    wasm: Arc<[u8]>,
    known: Option<Arc<CompiledFunctions>>,
    artifact: NewFile,
    permit: Option<OwnedSemaphorePermit>,
) -> Result<WrittenFile, LoadError> {
    let (sender, answer) = oneshot::channel();
    let work = move || {
        let compiled = artifact_of(wasm.to_vec(), known).map_err(|error| refused(format!("{error:#}")));
        let artifact = compiled.and_then(|bytes| copy(bytes.as_slice(), artifact, u64::MAX));
        drop(permit);
        // Fails only if the caller gave up.
        drop(sender.send(artifact));
    };
    let thread = std::thread::Builder::new().name("compiler".into()).stack_size(STACK_BYTES);
    thread.spawn(work).map_err(|source| LoadError::RunCompiler { compiler: "a thread".into(), source })?;
    answer.await.map_err(|_| refused("the compiler panicked".to_owned()))?
}

fn refused(problem: String) -> LoadError {
    LoadError::Compile { problem }
}

/// A program that compiles one component from standard input to standard output.
#[derive(Debug, Clone)]
struct ChildCompiler {
    program: PathBuf,
    /// Those before the limits.
    arguments: Vec<OsString>,
    memory_bytes: u64,
    timeout: Duration,
}

impl ChildCompiler {
    async fn run(&self, wasm: &[u8], artifact: NewFile) -> Result<WrittenFile, LoadError> {
        let failed = |source| LoadError::RunCompiler { compiler: self.program.display().to_string(), source };
        let mut child = self.spawn().map_err(failed)?;
        let artifact_max =
            (wasm.len() as u64).saturating_mul(ARTIFACT_BYTES_PER_COMPONENT_BYTE).saturating_add(ARTIFACT_BYTES_MIN);
        let (input, output, message) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let output = File::from(
            output
                .ok_or(io::ErrorKind::BrokenPipe)
                .map_err(|kind| failed(kind.into()))?
                .into_owned_fd()
                .map_err(failed)?,
        );
        // Ends with the child, which is killed if this future is dropped.
        let artifact = spawn_blocking(move || copy(output, artifact, artifact_max));
        let (_, artifact, message) = tokio::join!(feed(input, wasm), artifact, read(message, MESSAGE_BYTES_MAX));
        let (artifact, message) = (artifact.map_err(LoadError::Interrupted)??, message.map_err(failed)?);
        let status = child.wait().await.map_err(failed)?;
        self.judge(status, &message)?;
        Ok(artifact)
    }

    fn spawn(&self) -> io::Result<Child> {
        Command::new(&self.program)
            .args(&self.arguments)
            .arg(self.memory_bytes.to_string())
            .arg(self.cpu_seconds().to_string())
            // A child that reads a stranger's file needs none of our secrets.
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
    }

    fn cpu_seconds(&self) -> u64 {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
        self.timeout.as_secs().max(1).saturating_mul(cores)
    }

    /// Exit code 0: the artifact, and standard error says which protection there was not. 1: the component is refused, and standard error says why. Anything else: it died.
    fn judge(&self, status: ExitStatus, message: &[u8]) -> Result<(), LoadError> {
        let message = String::from_utf8_lossy(message);
        let mut lines = message.lines().map(str::trim).filter(|line| !line.is_empty());
        let first_line = lines.next().unwrap_or_default();
        if status.signal() == Some(Signal::XCPU.as_raw()) {
            return Err(LoadError::CompileTimeout { limit: self.timeout });
        }
        match status.code() {
            Some(0) => {
                say_how_confined(first_line);
                Ok(())
            }
            Some(1) if !first_line.is_empty() => Err(LoadError::Compile { problem: first_line.to_owned() }),
            _ => Err(LoadError::CompilerDied {
                how: match (first_line, lines.next()) {
                    ("", _) => status.to_string(),
                    (only, None) => format!("{status}: {only}"),
                    // A panic says where it was in one line, and what it was in the next.
                    (first, Some(second)) => format!("{status}: {first} {second}"),
                },
                memory_bytes: self.memory_bytes,
            }),
        }
    }
}

/// Once for all: the system does not change while the server runs.
fn say_how_confined(missing: &str) {
    static SAID: Once = Once::new();
    SAID.call_once(|| match missing {
        "" => tracing::debug!("the compiler is confined by Landlock and seccomp"),
        _ => tracing::warn!("the compiler is not wholly confined: {missing}"),
    });
}

/// Writes all and closes the pipe. A child that stops reading is not an error here: its exit status says more.
async fn feed(input: Option<impl AsyncWriteExt + Unpin>, wasm: &[u8]) {
    if let Some(mut input) = input {
        let _ = input.write_all(wasm).await;
    }
}

/// Copies to the end, in pieces: an artifact may have a gigabyte. One of more than `max` bytes is refused; closing the pipe then
/// stops a child that would write for ever.
fn copy(mut output: impl io::Read, mut artifact: NewFile, max: u64) -> Result<WrittenFile, LoadError> {
    let folder = artifact.folder();
    let failed = |source| LoadError::KeepArtifact { path: folder.clone(), source };
    let (mut piece, mut bytes) = (vec![0; PIECE_BYTES], 0);
    loop {
        let read = match output.read(&mut piece) {
            Ok(0) => return artifact.finish().map_err(failed),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(failed(error)),
        };
        bytes += read as u64;
        if bytes > max {
            return Err(refused(format!("its artifact has more than {max} bytes")));
        }
        artifact.write(piece.get(..read).unwrap_or_default()).map_err(failed)?;
    }
}

/// Reads to the end, or one byte past `max`.
async fn read(output: Option<impl AsyncRead + Unpin>, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(output) = output {
        output.take(max + 1).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use wasmtime::Engine;

    use super::*;
    use crate::private_folder::{FolderLimits, PrivateFolder};

    /// A compiler that is a shell script.
    fn script(script: &str, timeout: Duration) -> Compiler {
        let arguments = vec!["-c".into(), script.into(), COMPILE_SUBCOMMAND.into()];
        let child = ChildCompiler { program: "/bin/sh".into(), arguments, memory_bytes: MEMORY_BYTES, timeout };
        let settings = CompilerSettings { timeout, ..CompilerSettings::default() };
        Compiler { process: Process::Child(child), ..Compiler::new(settings) }
    }

    async fn compile(compiler: &Compiler, wasm: &[u8]) -> Result<Vec<u8>, LoadError> {
        let place = tempfile::tempdir().unwrap();
        let limits = FolderLimits { files: 1, bytes: u64::MAX };
        let folder = PrivateFolder::open(place.path(), "cwasm", limits).unwrap();
        let artifact = compiler.compile(&wasm.into(), folder.begin().unwrap()).await?;
        folder.keep("artifact", artifact, || {}).unwrap();
        Ok(folder.read("artifact").unwrap().unwrap())
    }

    const MEMORY_BYTES: u64 = 4 << 30;

    const LONG: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn what_the_child_writes_is_the_artifact() {
        assert_eq!(compile(&script("cat", LONG), b"wasm").await.unwrap(), b"wasm");
    }

    #[tokio::test]
    async fn the_child_gets_its_limits_as_arguments() {
        let arguments = compile(&script("echo $0 $1", LONG), b"").await.unwrap();
        assert_eq!(arguments, format!("{COMPILE_SUBCOMMAND} {}\n", 4_u64 << 30).as_bytes());
    }

    #[tokio::test]
    async fn a_refusal_is_the_first_line_of_standard_error() {
        let error = compile(&script("echo no good >&2; exit 1", LONG), b"wasm").await.unwrap_err();
        assert_eq!(error.to_string(), "the component does not compile: no good");
    }

    #[tokio::test]
    async fn a_child_that_died_is_distinguished_from_a_refusal() {
        let error = compile(&script("kill -9 $$", LONG), b"wasm").await.unwrap_err();
        assert!(matches!(&error, LoadError::CompilerDied { how, .. } if how.contains("signal: 9")), "{error}");
    }

    #[tokio::test]
    async fn a_child_that_takes_too_long_is_killed() {
        let error = compile(&script("exec sleep 600", Duration::from_millis(50)), b"wasm").await.unwrap_err();
        assert!(matches!(error, LoadError::CompileTimeout { .. }), "{error}");
        // By its own limit of CPU time, where this process stands still meanwhile.
        let error = compile(&script("kill -XCPU $$", LONG), b"wasm").await.unwrap_err();
        assert!(matches!(error, LoadError::CompileTimeout { .. }), "{error}");
    }

    #[tokio::test]
    async fn the_error_quotes_the_message_of_a_child_that_panicked() {
        let panic = "printf '\\nthread main panicked at x.rs:1:\\nno room\\nnote: more\\n' >&2; exit 101";
        let error = compile(&script(panic, LONG), b"wasm").await.unwrap_err().to_string();
        assert!(error.contains("exit status: 101: thread main panicked at x.rs:1: no room)"), "{error}");
    }

    #[tokio::test]
    async fn a_child_that_never_stops_writing_is_stopped() {
        let error = compile(&script("exec yes", LONG), b"wasm").await.unwrap_err();
        assert!(error.to_string().contains("its artifact has more than"), "{error}");
    }

    #[tokio::test]
    async fn a_missing_program_is_named() {
        let process = CompilerProcess::Child { program: "/nowhere/gristmill".into(), memory_bytes: MEMORY_BYTES };
        let compiler = Compiler::new(CompilerSettings { process, ..CompilerSettings::default() });
        let error = compile(&compiler, b"wasm").await.unwrap_err();
        assert_eq!(error.to_string(), "failed to run the compiler (/nowhere/gristmill)");
    }

    /// The smallest component.
    const NOTHING: &[u8] = b"\0asm\x0d\0\x01\0";

    #[tokio::test]
    async fn a_thread_compiles_or_says_why_it_cannot() {
        let compiler = Compiler::new(CompilerSettings::default());
        let artifact = compile(&compiler, NOTHING).await.unwrap();
        assert!(Engine::detect_precompiled(&artifact).is_some());
        let error = compile(&compiler, b"no wasm").await.unwrap_err().to_string();
        assert!(error.starts_with("the component does not compile: "), "{error}");
    }

    #[tokio::test]
    async fn a_thread_is_given_up_at_the_timeout_and_counts_until_it_is_done() {
        let settings = CompilerSettings { timeout: Duration::ZERO, ..CompilerSettings::default() };
        let compiler = Compiler::new(settings);
        let large = format!("(component {})", "(core module (func (drop (i32.const 1))))".repeat(500));
        let large = wat::parse_str(large).unwrap();
        let error = compile(&compiler, &large).await.unwrap_err();
        assert!(matches!(error, LoadError::CompileTimeout { .. }), "{error}");
        // Every permit comes back once the thread has ended.
        let all = u32::try_from(COMPILES_AT_ONCE).unwrap();
        let all = tokio::time::timeout(LONG, compiler.permits.acquire_many(all)).await;
        assert!(all.is_ok_and(|permits| permits.is_ok()));
    }
}

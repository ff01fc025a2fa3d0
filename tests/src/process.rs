//! The real binary in a process of its own, for what only a process can show: being killed, being signalled.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// How often a test kills a process: `usual`, unless `GRISTMILL_TEST_KILLS` names another number.
pub fn kills(usual: u64) -> u64 {
    std::env::var("GRISTMILL_TEST_KILLS").map_or(usual, |text| text.parse().expect("a number of kills"))
}

/// The binary under test, which cargo puts beside the folder of the test binary.
pub fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().join("gristmill-under-test")
}

/// `gristmill run`, killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Runs the manifest; its log goes to `<folder of the manifest>/run.log`, behind what is there.
    pub fn run(manifest: &Path) -> Self {
        Self::run_with(manifest, &["--log", "gristmill=debug"])
    }

    /// The same with these options instead of those for a full log.
    pub fn run_with(manifest: &Path, options: &[&str]) -> Self {
        Self::start(run_command(manifest, options), manifest)
    }

    /// The same by a command of the caller's, which becomes `gristmill run`.
    pub fn start(mut command: Command, manifest: &Path) -> Self {
        let log = manifest.with_file_name("run.log");
        let file = std::fs::File::options().create(true).append(true).open(&log).unwrap();
        Self::spawn(command.stdout(file.try_clone().unwrap()).stderr(file), manifest)
    }

    /// The same, and its output goes where the command says.
    pub fn spawn(command: &mut Command, manifest: &Path) -> Self {
        Self { child: command.spawn().unwrap(), log: manifest.with_file_name("run.log") }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// SIGKILL: no handler, no goodbye.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// None while it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// What it has said, as far as the lines are whole: it may be writing at this moment.
    pub fn log(&self) -> String {
        let mut log = std::fs::read(&self.log).unwrap();
        log.truncate(log.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
        String::from_utf8(log).unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A command of the binary under test, with the cache that all tests share.
pub fn command(manifest: &Path) -> Command {
    let mut command = Command::new(program());
    command.env("XDG_CACHE_HOME", caches()).arg("--manifest").arg(manifest).stdin(Stdio::null());
    command
}

/// `gristmill run` with these options.
pub fn run_command(manifest: &Path, options: &[&str]) -> Command {
    let mut command = command(manifest);
    command.args(options).arg("run");
    command
}

/// Where processes and sandboxes of this one keep what they compiled, from run to run.
pub fn caches() -> PathBuf {
    program().with_file_name("test-caches")
}

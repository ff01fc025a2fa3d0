//! What goes wrong with a store, and how it comes about.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::Command;

use gristmill_tests::guests;
use gristmill_tests::http_client::HttpClient;
use gristmill_tests::process::{Process, run_command};
use gristmill_tests::shell::after;
use gristmill_tests::test_project::TestProject;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit};

use super::wire::{Passes, Wire};
use crate::adversary::kills::served_by;

/// What happens to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outage {
    RedisStandsStill,
    RedisDies,
    RedisHasNoMemory,
    /// It refuses writes while its log takes none.
    RedisCannotWrite,
    /// The connections to Redis: they end, or go on without what is sent over them.
    Connections(Passes),
    /// The file of the embedded store takes no write, and no other file of the process does.
    DiskFails,
    /// The embedded store is on a disk that becomes full.
    DiskIsFull,
}

const MANIFEST: &str = r#"
    [journal]
    path = "journal.jsonl"
    [topics.puppet]
    timeout = "1s"
    attempts = 2
"#;

const DISK: &str = "[store]\nurl = \"sqlite:disk/jobs.db\"\n";

/// A server with what it takes to interrupt its store.
pub(super) struct Rig {
    pub(super) project: TestProject,
    pub(super) client: HttpClient,
    process: Process,
    wire: Option<Wire>,
}

impl Rig {
    pub(super) async fn start(outage: Outage) -> Self {
        let handlers = [("puppet", guests::PUPPET)];
        let project = match outage {
            Outage::DiskFails | Outage::DiskIsFull => TestProject::new(&format!("{DISK}{MANIFEST}"), &handlers).await,
            _ => TestProject::on_redis(MANIFEST, &handlers).await,
        };
        let wire = match outage {
            Outage::Connections(_) => Some(Wire::start(project.redis.as_ref().unwrap()).await),
            _ => None,
        };
        if let (Some(wire), Some(redis)) = (&wire, &project.redis) {
            let manifest = fs::read_to_string(project.manifest()).unwrap();
            project.write_manifest(&manifest.replace(&redis.url(), &wire.url()));
        }
        let mut command = run_command(&project.manifest(), &["--log", "gristmill=info"]);
        let disk = project.manifest().with_file_name("disk");
        match outage {
            Outage::DiskFails => {
                fs::create_dir(&disk).unwrap();
                // Without it, a write over the limit ends the process.
                command = after("trap '' XFSZ", &command);
            }
            Outage::DiskIsFull => {
                fs::create_dir(&disk).unwrap();
                assert_may_mount();
                let mount = format!("mount -t tmpfs -o size=32m none {}", disk.display());
                command = after(
                    &format!("exec unshare --mount --map-root-user sh -ec '{mount}; exec \"$@\"' sh \"$@\""),
                    &command,
                );
            }
            _ => {}
        }
        let (process, client) = served_by(&project, command).await;
        Self { project, client, process, wire }
    }

    pub(super) async fn begin(&mut self, outage: Outage) {
        match outage {
            Outage::RedisStandsStill => self.redis().signal(Signal::STOP),
            Outage::RedisDies => self.redis().kill(),
            Outage::RedisHasNoMemory => self.set_memory("1").await,
            Outage::RedisCannotWrite => limit_files(self.redis().pid(), Some(0)),
            Outage::Connections(passes) => self.wire.as_ref().unwrap().set(passes),
            Outage::DiskFails => limit_files(self.pid(), Some(0)),
            Outage::DiskIsFull => self.fill_disk(),
        }
    }

    pub(super) async fn end(&mut self, outage: Outage) {
        match outage {
            Outage::RedisStandsStill => self.redis().signal(Signal::CONT),
            Outage::RedisDies => self.redis().resume().await,
            Outage::RedisHasNoMemory => self.set_memory("0").await,
            Outage::RedisCannotWrite => limit_files(self.redis().pid(), None),
            Outage::Connections(_) => self.wire.as_ref().unwrap().set(Passes::All),
            Outage::DiskFails => limit_files(self.pid(), None),
            Outage::DiskIsFull => fs::remove_file(self.ballast()).unwrap(),
        }
    }

    fn redis(&mut self) -> &mut gristmill_tests::redis::Redis {
        self.project.redis.as_mut().unwrap()
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.process.pid().try_into().unwrap()).unwrap()
    }

    async fn set_memory(&mut self, bytes: &str) {
        self.redis().ask::<String>("CONFIG", &["SET", "maxmemory", bytes]).await.unwrap();
    }

    /// A file on the disk that only the server has mounted.
    fn ballast(&self) -> PathBuf {
        let disk = self.project.manifest().with_file_name("disk/ballast");
        PathBuf::from(format!("/proc/{}/root{}", self.process.pid(), disk.display()))
    }

    fn fill_disk(&self) {
        let mut ballast = File::create(self.ballast()).unwrap();
        let full = loop {
            if let Err(error) = ballast.write_all(&[7; 4096]) {
                break error;
            }
        };
        assert_eq!(full.kind(), ErrorKind::StorageFull, "{full}");
    }
}

/// How large a file of the process may become; writes beyond it fail. `None` for what is usual.
fn limit_files(of: Pid, bytes: Option<u64>) {
    let usual = getrlimit(Resource::Fsize);
    prlimit(Some(of), Resource::Fsize, Rlimit { current: bytes.or(usual.current), ..usual }).unwrap();
}

/// # Panics
/// When the system lets this user mount no disk of its own.
fn assert_may_mount() {
    let tried = Command::new("unshare").args(["--mount", "--map-root-user", "true"]).output().unwrap();
    let said = String::from_utf8_lossy(&tried.stderr);
    assert!(
        tried.status.success(),
        "the test of a full disk mounts one in a user namespace, which this system refuses: {said}\
         allow it (Ubuntu: sysctl kernel.apparmor_restrict_unprivileged_userns=0; Docker: --security-opt seccomp=unconfined)"
    );
}

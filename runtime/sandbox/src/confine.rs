//! What a compiling process gives up before it reads a component: a weakness of the compiler then gains no file, network or program.

use std::collections::BTreeMap;

use landlock::{ABI, Access, AccessFs, AccessNet, LandlockStatus, Ruleset, RulesetAttr, RulesetStatus, Scope};
use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

/// The newest that is asked for. Of an older kernel's, as much as there is.
const LANDLOCK: ABI = ABI::V6;

/// What compiling takes: to read and write what is open, memory, threads and their signals, time, random numbers, and to end.
const CALLS: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_ppoll,
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_membarrier,
    libc::SYS_rseq,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_getrandom,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Leaves this thread, and those that it starts from now on, nothing but what is open. Returns what the kernel or its settings do not
/// allow, and what follows from that.
pub(super) fn confine() -> Vec<String> {
    let no_landlock =
        landlock().err().map(|cause| format!("without Landlock ({cause}), only seccomp keeps it from files"));
    let seccomp = seccomp().and_then(|filter| seccompiler::apply_filter(&filter));
    let no_seccomp = seccomp
        .err()
        .map(|cause| format!("without seccomp ({cause}), it may start programs and send over the network"));
    no_landlock.into_iter().chain(no_seccomp).collect()
}

/// No file may be opened or changed, no port be bound or connected to, no other process be reached.
fn landlock() -> Result<(), String> {
    let rules = Ruleset::default()
        .handle_access(AccessFs::from_all(LANDLOCK))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(LANDLOCK)))
        .and_then(|rules| rules.scope(Scope::from_all(LANDLOCK)));
    let status =
        rules.and_then(Ruleset::create).and_then(|rules| rules.restrict_self()).map_err(|error| error.to_string())?;
    match (status.ruleset, status.landlock) {
        (RulesetStatus::NotEnforced, LandlockStatus::NotImplemented) => Err("the kernel does not have it".to_owned()),
        (RulesetStatus::NotEnforced, _) => Err("it is not enabled".to_owned()),
        _ => Ok(()),
    }
}

/// Any other system call is answered as if the kernel did not have it. A library may then try an older one, such as `clone` in place of
/// `clone3`, whose arguments a filter cannot see.
fn seccomp() -> seccompiler::Result<BpfProgram> {
    let mut calls: BTreeMap<i64, Vec<SeccompRule>> = CALLS.iter().map(|call| (*call, Vec::new())).collect();
    // A thread and no process; and a signal to this process alone, with which a failed assertion ends it.
    let flag = libc::CLONE_THREAD as u64;
    let own = u64::from(std::process::id());
    for (call, operator, value) in [(libc::SYS_clone, MaskedEq(flag), flag), (libc::SYS_tgkill, Eq, own)] {
        let condition = SeccompCondition::new(0, SeccompCmpArgLen::Dword, operator, value)?;
        calls.insert(call, vec![SeccompRule::new(vec![condition])?]);
    }
    let missing = SeccompAction::Errno(libc::ENOSYS as u32);
    let filter =
        SeccompFilter::new(calls, missing, SeccompAction::Allow, TargetArch::try_from(std::env::consts::ARCH)?)?;
    Ok(filter.try_into()?)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpStream, UdpSocket};
    use std::process::Command;

    use super::*;
    use crate::compile_child::artifact_of;

    /// Both hold for a thread, so that a test needs no process of its own. Returns what the kernel does not have.
    fn confined<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> (T, Vec<String>) {
        let thread = std::thread::spawn(move || {
            let missing = confine();
            (work(), missing)
        });
        thread.join().unwrap()
    }

    #[test]
    fn what_is_confined_opens_nothing_and_starts_nothing() {
        let place = tempfile::tempdir().unwrap();
        let (there, new) = (place.path().join("there"), place.path().join("new"));
        std::fs::write(&there, "secret").unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let parent = rustix::process::getppid().unwrap();
        let (allowed, missing) = confined(move || {
            [
                ("read a file", std::fs::read(&there).is_ok()),
                ("write a file", std::fs::write(&new, "").is_ok()),
                ("remove a file", std::fs::remove_file(&there).is_ok()),
                ("list a folder", std::fs::read_dir("/").is_ok()),
                ("connect", TcpStream::connect(address).is_ok()),
                ("open a socket", UdpSocket::bind("127.0.0.1:0").is_ok()),
                ("start a program", Command::new("/bin/true").status().is_ok()),
                ("stop a process", rustix::process::test_kill_process(parent).is_ok()),
            ]
        });
        println!("on this kernel: {missing:?}");
        // Seccomp alone forbids all of it. Where that is missing, it is named.
        let lacks_seccomp = missing.iter().any(|line| line.starts_with("without seccomp"));
        for (what, is_allowed) in allowed {
            assert!(!is_allowed || lacks_seccomp, "{what}; {missing:?}");
        }
    }

    #[test]
    fn landlock_alone_keeps_files_closed() {
        let place = tempfile::tempdir().unwrap();
        let there = place.path().join("there");
        std::fs::write(&there, "secret").unwrap();
        let thread = std::thread::spawn(move || (landlock(), std::fs::read(&there).is_ok()));
        let (confined, is_allowed) = thread.join().unwrap();
        assert_ne!(confined.is_ok(), is_allowed, "{confined:?}");
    }

    #[test]
    fn what_is_confined_compiles_and_starts_threads() {
        let functions = "(core module (func (export \"f\") (drop (i32.const 1))))".repeat(100);
        let component = wat::parse_str(format!("(component {functions})")).unwrap();
        let (compiled, _) = confined(move || {
            std::thread::spawn(std::thread::yield_now).join().unwrap();
            artifact_of(component, None)
        });
        assert!(!compiled.unwrap().is_empty());
    }
}

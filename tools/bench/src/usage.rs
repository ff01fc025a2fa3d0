//! How much CPU time and memory a process has used, as the kernel counts it.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Linux counts in hundredths of a second, whatever the kernel's own tick is (`USER_HZ`, proc_pid_stat(5)).
const TICK: Duration = Duration::from_millis(10);
/// The kernel's page on the machines that we run on.
const PAGE_BYTES: u64 = 4096;

/// User and system time of another process and its threads so far, in steps of 10 ms; zero if it is gone.
pub(super) fn cpu_of(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The second field is the program's name in parentheses and may hold blanks; count from behind it.
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields).unwrap_or_default();
    let ticks: u32 = fields.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u32>().ok()).sum();
    TICK * ticks
}

/// User and system time of this process and its threads so far.
pub(super) fn own_cpu() -> Duration {
    clock(ClockId::ProcessCPUTime)
}

/// The same of the calling thread alone.
pub(super) fn thread_cpu() -> Duration {
    clock(ClockId::ThreadCPUTime)
}

/// This process's resident memory in bytes, without what files back (its own code, compiled components); zero where the
/// kernel does not say (proc_pid_statm(5)).
pub(super) fn own_memory() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let mut pages = statm.split_whitespace().skip(1).filter_map(|pages| pages.parse::<u64>().ok());
    let (resident, shared) = (pages.next().unwrap_or(0), pages.next().unwrap_or(0));
    resident.saturating_sub(shared) * PAGE_BYTES
}

/// Files that this process has open; zero where the kernel does not say.
pub(super) fn open_files() -> u64 {
    std::fs::read_dir("/proc/self/fd").map_or(0, |files| files.count() as u64)
}

/// Mappings of this process's memory, of which Linux allows 65,530 by default; zero where the kernel does not say.
pub(super) fn mappings() -> u64 {
    std::fs::read_to_string("/proc/self/maps").map_or(0, |maps| maps.lines().count() as u64)
}

fn clock(id: ClockId) -> Duration {
    let time = clock_gettime(id);
    let (seconds, nanos) = (u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0));
    Duration::new(seconds, nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_answers() {
        let mut sum = 0_u64;
        while thread_cpu() < Duration::from_millis(1) {
            sum = std::hint::black_box(sum + 1);
        }
        let of_thread = thread_cpu();
        assert!(own_cpu() >= of_thread);
        assert!(own_memory() > 0 && open_files() > 0 && mappings() > 0);
        assert_eq!(cpu_of(u32::MAX), Duration::ZERO);
    }
}

//! How much CPU time a process has used.

use std::time::Duration;

/// Linux counts in hundredths of a second, whatever the kernel's own tick is (`USER_HZ`, proc_pid_stat(5)).
const TICK: Duration = Duration::from_millis(10);

/// User and system time of a process and its threads so far; zero if it is gone.
pub(super) fn used(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The second field is the program's name in parentheses and may hold blanks; count from behind it.
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields).unwrap_or_default();
    let ticks: u32 = fields.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u32>().ok()).sum();
    TICK * ticks
}

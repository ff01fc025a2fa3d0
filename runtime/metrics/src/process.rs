//! What the kernel reports about this process, under the names that every Prometheus client uses. A number that the kernel
//! does not report is left out.

use std::sync::LazyLock;

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::exposition::MetricType::{Counter, Gauge};
use super::exposition::{Family, Measured, Metric, metric};
use gristmill_core::time::Timestamp;

/// When this was first read.
static BEGUN: LazyLock<Timestamp> = LazyLock::new(Timestamp::now);

/// Remembers now as the process's beginning.
pub(super) fn begin() {
    LazyLock::force(&BEGUN);
}

/// This process at one moment.
#[derive(Debug)]
pub(super) struct Process {
    /// The file `status` of proc_pid_status(5).
    status: String,
}

impl Process {
    pub(super) fn read() -> Self {
        Self { status: std::fs::read_to_string("/proc/self/status").unwrap_or_default() }
    }

    /// Writes the number of a line of `status`, in units of `unit`.
    fn write(&self, field: &str, unit: u64, family: &mut Family<'_>) {
        let line = self.status.lines().find_map(|line| line.strip_prefix(field));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        number.into_iter().for_each(|number| family.sample(&[], number * unit));
    }
}

impl Measured for Process {}

const VIRTUAL: &str = "Address space; most of it is reserved for sandboxes and not used.";

pub(super) const METRICS: &[Metric<Process>] = &[
    metric("process_cpu_seconds_total", Counter, "User and system time spent.", |_, family| {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        family.float(&[], cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9);
    }),
    metric("process_start_time_seconds", Gauge, "Start of the process since the Unix epoch.", |_, family| {
        family.float(&[], BEGUN.as_millis() as f64 / 1e3);
    }),
    metric("process_virtual_memory_bytes", Gauge, VIRTUAL, |process, family| process.write("VmSize:", 1024, family)),
    metric("process_resident_memory_bytes", Gauge, "Resident memory.", |process, family| {
        process.write("VmRSS:", 1024, family);
    }),
    metric("process_threads", Gauge, "Threads.", |process, family| process.write("Threads:", 1, family)),
    metric("process_open_fds", Gauge, "Open file descriptors.", |_, family| {
        let files = std::fs::read_dir("/proc/self/fd").map(Iterator::count);
        files.into_iter().for_each(|files| family.sample(&[], files as u64));
    }),
    metric("process_max_fds", Gauge, "File descriptors that may be open at once.", |_, family| {
        getrlimit(Resource::Nofile).current.into_iter().for_each(|most| family.sample(&[], most));
    }),
];

#[cfg(test)]
mod tests {
    use super::super::exposition::{Exposition, Format};
    use super::*;

    #[test]
    fn the_kernel_reports_the_process() {
        let mut exposition = Exposition::new(Format::Text);
        exposition.write(METRICS, std::iter::once(&Process::read()));
        let text = exposition.end();
        for name in
            ["process_cpu_seconds_total ", "process_resident_memory_bytes ", "process_open_fds ", "process_threads "]
        {
            let line =
                text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}: {text}"));
            assert!(line.parse::<f64>().unwrap() > 0.0, "{name}{line}");
        }
    }
}

//! What the kernel knows of this process, as every Prometheus client tells it. Where it does not say, nothing is written.

use std::sync::LazyLock;

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::exposition::{Exposition, MetricType};
use gristmill_core::time::Timestamp;

/// When this was first asked for, unless the kernel knows better.
static BEGUN: LazyLock<Timestamp> = LazyLock::new(Timestamp::now);

/// Remembers now as the process's beginning.
pub(super) fn begin() {
    LazyLock::force(&BEGUN);
}

pub(super) fn write(exposition: &mut Exposition) {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9;
    exposition
        .family("process_cpu_seconds_total", MetricType::Counter, "User and system time spent.")
        .float(&[], seconds);
    let begun = BEGUN.as_millis() as f64 / 1e3;
    let mut family = exposition.family(
        "process_start_time_seconds",
        MetricType::Gauge,
        "Start of the process since the Unix epoch.",
    );
    family.float(&[], begun);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut tell = |name, help, field: &str, unit: u64| {
        if let Some(value) = number(&status, field) {
            exposition.family(name, MetricType::Gauge, help).sample(&[], value * unit);
        }
    };
    let address_space = "Address space; most of it is reserved for sandboxes and not used.";
    tell("process_virtual_memory_bytes", address_space, "VmSize:", 1024);
    tell("process_resident_memory_bytes", "Resident memory.", "VmRSS:", 1024);
    tell("process_threads", "Threads.", "Threads:", 1);
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        exposition
            .family("process_open_fds", MetricType::Gauge, "Open file descriptors.")
            .sample(&[], files.count() as u64);
    }
    if let Some(most) = getrlimit(Resource::Nofile).current {
        exposition
            .family("process_max_fds", MetricType::Gauge, "File descriptors that may be open at once.")
            .sample(&[], most);
    }
}

/// A line of proc_pid_status(5).
fn number(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::exposition::Format;
    use super::*;

    #[test]
    fn the_kernel_answers() {
        let mut exposition = Exposition::new(Format::Text);
        write(&mut exposition);
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

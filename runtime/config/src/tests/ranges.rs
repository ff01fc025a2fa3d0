//! Whether each range holds, and is documented.

use std::path::Path;

use crate::{Manifest, ranges};

#[test]
fn every_bound_holds_at_its_edges_and_not_beyond() {
    for &bounds in ranges::ALL {
        let section = match bounds.key {
            "threads" | "shutdown-grace" | "bill-retention" => "server",
            "rescan" | "component-limit" | "compile-timeout" | "compile-memory" => "handlers",
            "replicas" | "acknowledged-within" => "store",
            "slower-than" => "otel",
            "rotate-at" | "keep" => "journal",
            "every" => "topics.a.schedule.s",
            "jitter" if std::ptr::eq(bounds, &ranges::TICK_JITTER) => "topics.a.schedule.s",
            "base" | "max" | "jitter" => "topics.a.backoff",
            "request-limit" | "response-limit" | "requests" => "topics.a.http",
            "requests-per-second"
            | "stored-jobs"
            | "stored-bytes"
            | "topics"
            | "payload"
            | "keep-result"
            | "unique-window"
            | "weight"
            | "jobs-per-day"
            | "fuel-per-hour" => "limits",
            "max-running" if std::ptr::eq(bounds, &ranges::RUNNING_OF_TENANT) => "limits",
            "concurrency" if std::ptr::eq(bounds, &ranges::REQUESTS_AT_ONCE) => "limits",
            "timeout" if std::ptr::eq(bounds, &ranges::HTTP_TIMEOUT) => "topics.a.http",
            "max-running" if std::ptr::eq(bounds, &ranges::RUNNING_PER_KEY) => "topics.a.per-key",
            _ => "topics.a",
        };
        let with = |base: u64| {
            let value = if bounds.scale.bare { base.to_string() } else { format!("\"{base}ms\"") };
            // So that cross-checks and what is required stay out of the way.
            let other = match bounds.key {
                "rotate-at" | "keep" => "path = \"a\"",
                "replicas" | "acknowledged-within" => "url = \"redis://db\"\nacknowledged-by = \"disks\"",
                "base" => "max = \"30d\"",
                "max" => "base = \"0s\"",
                "burst" => "rate = \"1/s\"",
                "partitions" => "[store]\nurl = \"redis://db\"",
                "jitter" if section == "topics.a.schedule.s" => "cron = \"@daily\"",
                _ if section == "topics.a.http" => "allow = [\"*\"]",
                _ => "",
            };
            Manifest::parse(&format!("[{section}]\n{} = {value}\n{other}", bounds.key), Path::new("m.toml")).is_ok()
        };
        assert!(with(bounds.min) && with(bounds.max), "{bounds:?}");
        assert!(!with(bounds.max + 1), "{bounds:?}");
        assert!(bounds.min == 0 || !with(bounds.min - 1), "{bounds:?}");
    }
}

#[test]
fn the_reference_names_every_range() {
    let reference = include_str!("../../../../docs/reference/manifest.md");
    for &bounds in ranges::ALL {
        let (start, range) = (format!("| `{}` |", bounds.key), format!("| {} |", bounds.range()));
        let is_there = reference.lines().any(|line| line.starts_with(&start) && line.contains(&range));
        assert!(is_there, "docs/reference/manifest.md has no line `{start} … {range} …`");
    }
}

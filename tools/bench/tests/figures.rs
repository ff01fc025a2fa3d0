//! Tiny runs: that every scenario runs to its end and says what it should. No figure is judged: machines are noisy.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use gristmill_tests::guests;
use gristmill_tests::process::program;
use serde_json::Value;

/// What the program wrote, and how it ended.
struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

fn run(folder: &Path, arguments: &[&str]) -> Said {
    let ended =
        Command::new(env!("CARGO_BIN_EXE_gristmill-bench")).current_dir(folder).args(arguments).output().unwrap();
    let [out, err] = [ended.stdout, ended.stderr].map(|text| String::from_utf8(text).unwrap());
    Said { code: ended.status.code(), out, err }
}

/// What it wrote when it succeeded.
fn done(folder: &Path, arguments: &[&str]) -> String {
    let said = run(folder, arguments);
    assert_eq!(said.code, Some(0), "{}", said.err);
    said.out
}

fn documents(out: &str) -> Vec<Value> {
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// One document for each figure.
fn bench(arguments: &[&str]) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let gristmill = program();
    let server = ["--gristmill", gristmill.to_str().unwrap()];
    let usual = [&["--json", "--handler", guests::ECHO, "--simulate", guests::SIMULATE][..], &server].concat();
    documents(&done(folder.path(), &[&usual[..], arguments].concat()))
}

fn scenarios(figures: &[Value]) -> BTreeSet<&str> {
    figures.iter().map(|figure| figure["scenario"].as_str().unwrap()).collect()
}

fn case<'a>(figures: &'a [Value], scenario: &str, case: &str) -> &'a Value {
    let is = |figure: &&Value| figure["scenario"] == scenario && figure["case"].as_str().unwrap_or("") == case;
    figures.iter().find(is).unwrap_or_else(|| panic!("no figure of {scenario}: {case}"))
}

fn positive(value: &Value) -> bool {
    value.as_f64().is_some_and(|value| value > 0.0)
}

/// Each of these scenarios has a figure; no server is needed.
fn embedded(wanted: &[&str]) -> Vec<Value> {
    let options = ["--on", "embedded-process", "--jobs", "100", "--concurrency", "50"];
    let figures = bench(&[wanted, &options].concat());
    assert_eq!(scenarios(&figures), wanted.iter().copied().collect());
    figures
}

#[test]
fn the_embedded_store_is_measured_without_a_server() {
    let figures = embedded(&["memory", "floor", "product", "throughput", "latency", "lateness"]);
    let throughput = case(&figures, "throughput", "");
    assert!(positive(&throughput["jobs_per_second"]) && positive(&throughput["runner_cpu_us_per_job"]));
    assert_eq!((&throughput["jobs"], &throughput["payload_bytes"]), (&100.into(), &200.into()));
    assert!(positive(&case(&figures, "latency", "push to start, idle")["delay"]["p99_us"]));
    assert!(positive(&case(&figures, "memory", "an idle runner")["memory_bytes"]));
}

#[test]
fn much_of_something_neighbours_and_new_components_are_measured() {
    let figures = embedded(&["scaling", "isolation", "reload", "start", "reuse", "http"]);
    assert!(positive(&case(&figures, "scaling", "1000 delayed")["ratio"]["value"]));
    for beside in ["beside 2 busy computing", "beside a tenant that floods 50 slots"] {
        assert!(positive(&case(&figures, "isolation", beside)["ratio"]["value"]));
    }
    assert!(positive(&case(&figures, "reuse", "1000 jobs an instance")["ratio"]["value"]));
    let singly = case(&figures, "http", "one a request, 16 connections");
    assert!(positive(&singly["jobs_per_second"]) && singly["jobs"] == 100);
    assert_eq!(case(&figures, "http", "1,000 a request, 2 connections")["jobs"], 1000);
    for how in ["compiled before", "never compiled"] {
        assert_eq!(case(&figures, "reload", how)["jobs"], 2);
    }
}

#[test]
fn the_bench_shows_ratios_to_the_floor_and_works_with_a_journal() {
    let figures = bench(&["floor", "product", "throughput", "--on", "redis", "--jobs", "500", "--journal"]);
    assert!(positive(&case(&figures, "product", "a component")["jobs_per_second"]));
    assert_eq!(case(&figures, "product", "a native handler")["ratio"]["of"], "a component");
    let floor = case(&figures, "floor", "bare Redis, batches of 50");
    let ratio = &case(&figures, "throughput", "")["ratio"];
    assert_eq!(ratio["of"], "bare Redis");
    assert!(positive(&floor["jobs_per_second"]) && positive(&ratio["value"]));
}

#[test]
fn jobs_with_results_and_follow_up_jobs_are_measured_beside_plain_ones() {
    let figures = bench(&["mixed", "--on", "redis", "--jobs", "300"]);
    assert!(positive(&case(&figures, "claim and settle", "")["jobs_per_second"]));
    let mixed = case(&figures, "mixed", "with result, follow-up job and unique value");
    assert_eq!((&mixed["jobs"], &mixed["ratio"]["of"]), (&300.into(), &"plain".into()));
}

#[test]
fn jobs_with_keys_are_measured_beside_those_without() {
    let figures = bench(&["keys", "--on", "embedded", "--jobs", "300"]);
    assert!(positive(&case(&figures, "keys", "no keys, 1 runners")["jobs_per_second"]));
    let keyed = case(&figures, "keys", "3 keys, 1 runners");
    assert_eq!((&keyed["jobs"], &keyed["ratio"]["of"]), (&300.into(), &"without keys".into()));

    let figures = bench(&["keys", "--on", "redis", "--jobs", "300"]);
    assert!(positive(&case(&figures, "keys", "3 keys, 3 runners")["ratio"]["value"]));
}

#[test]
fn members_of_batches_are_measured_beside_plain_jobs() {
    for store in ["redis", "embedded-process"] {
        let figures = bench(&["batch", "--on", store, "--jobs", "300"]);
        assert!(positive(&case(&figures, "batch", "as many plain jobs")["jobs_per_second"]));
        let is_batch =
            |figure: &&Value| figure["case"].as_str().is_some_and(|case| case.starts_with("batches of 300: "));
        let batch = figures.iter().find(is_batch).expect("a figure of the batch");
        assert_eq!((&batch["jobs"], &batch["ratio"]["of"]), (&300.into(), &"plain".into()));
    }
}

#[test]
fn the_rate_of_a_topic_and_the_shares_of_tenants_are_measured() {
    let figures = bench(&["rate", "shares", "--on", "redis", "--jobs", "100", "--concurrency", "50"]);
    let of = |scenario| figures.iter().filter(move |figure| figure["scenario"] == scenario);
    assert_eq!((of("rate").count(), of("shares").count()), (1, 4));
    assert!(of("rate").chain(of("shares")).all(|figure| positive(&figure["ratio"]["value"])), "{figures:?}");
}

#[test]
fn the_ticks_of_schedules_are_measured() {
    let figures = bench(&["ticks", "--on", "redis", "--jobs", "100"]);
    let ticks = case(&figures, "ticks", "50 schedules of a second, 10 runners");
    assert!(positive(&ticks["delay"]["p99_us"]) && positive(&ticks["jobs"]));
}

#[test]
fn the_page_is_measured_open_and_closed() {
    let figures = bench(&["screens", "--jobs", "100"]);
    assert!(positive(&case(&figures, "screens", "no page open")["jobs_per_second"]));
    assert!(positive(&case(&figures, "screens", "the page open on 10 screens")["ratio"]["value"]));
}

#[test]
fn traces_are_measured_and_figures_become_charts() {
    let folder = tempfile::tempdir().unwrap();
    let usual = ["traces", "--on", "embedded-process", "--jobs", "100", "--handler", guests::ECHO];
    let charts = folder.path().join("traces.svg");
    let table = done(folder.path(), &[&usual[..], &["--svg", charts.to_str().unwrap()]].concat());
    assert!(table.contains("1 % kept") && table.contains("all kept"), "{table}");
    let svg = std::fs::read_to_string(charts).unwrap();
    for text in ["<svg ", "Jobs a second", ">off<", ">of off</tspan>", "</svg>"] {
        assert!(svg.contains(text), "{text}: {svg}");
    }

    let said = run(folder.path(), &[&usual[..], &["--svg", "nowhere/traces.svg"]].concat());
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("failed to write the charts to nowhere/traces.svg"), "{}", said.err);
}

#[test]
fn idle_runners_are_measured_on_a_redis() {
    let figures = bench(&["herd", "--on", "redis", "--jobs", "100"]);
    for how in ["due at once", "delayed"] {
        assert!(positive(&case(&figures, "herd", &format!("{how}, 1 runners"))["store_commands_per_job"]));
        assert_eq!(case(&figures, "herd", &format!("{how}, 50 runners"))["ratio"]["of"], "1 runner");
    }
    // It may be none, on a machine that stands still.
    assert!(case(&figures, "herd", "idle: 1 runners, 50 tenants")["store_commands_per_second"].is_number());
}

#[test]
fn a_fleet_and_a_cluster_are_measured() {
    let figures = bench(&["fleet", "cluster", "--on", "redis", "--jobs", "100", "--concurrency", "50"]);
    assert!(positive(&case(&figures, "fleet", "pushes alone")["store_commands_per_job"]));
    assert_eq!(case(&figures, "fleet", "50 runners, pushes included")["ratio"]["of"], "1 runner");
    let [one, several] = ["redis over TCP", "redis cluster of 3"].map(|store| {
        figures.iter().find(|figure| figure["store"] == store).unwrap_or_else(|| panic!("no figure of {store}"))
    });
    assert!(positive(&one["runner_cpu_us_per_job"]) && several["case"] == "12 tenants");
}

#[test]
fn components_are_measured_by_themselves() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("gristmill.toml"), "[topics.echo]\nmemory = \"8MiB\"\n").unwrap();
    let measured = ["components", guests::ECHO, guests::SIMULATE, "--topic", "echo", "--data", "{}"];
    let figures = documents(&done(folder.path(), &[&measured[..], &["--rounds", "3", "--json"]].concat()));
    assert_eq!(figures.len(), 2);
    for figure in &figures {
        assert_eq!((&figure["language"], &figure["outcome"]), (&"Rust".into(), &"complete".into()));
        assert!(figure["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "rustc"));
        let figures = ["bytes", "artifact_bytes", "compile_ms", "load_ms", "start_us", "first_call_us", "kept_call_us"];
        let figures = [&figures[..], &["start_fuel", "job_fuel", "kept_job_fuel", "start_memory_bytes"]].concat();
        for name in figures {
            assert!(positive(&figure[name]), "{name} of {figure}");
        }
        assert!(figure["memory_bytes"].as_u64() >= figure["start_memory_bytes"].as_u64());
        assert_eq!(figure["rounds"], 3);
    }
    let table = done(folder.path(), &[&measured[..], &["--rounds", "1"]].concat());
    assert!(table.lines().next().unwrap().contains("KEPT CALL") && table.lines().count() == 3, "{table}");
}

#[test]
fn a_failed_measurement_is_named_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let said = run(folder.path(), &["components", "nowhere.wasm"]);
    assert!(said.code == Some(1) && said.err.contains("nowhere.wasm"), "{}", said.err);
    let unreachable = r#"{"do": [{"end": "unreachable"}]}"#;
    let said = run(folder.path(), &["components", guests::PUPPET, "--data", unreachable]);
    assert!(said.code == Some(1) && said.err.contains("puppet.wasm") && said.err.contains("--data"), "{}", said.err);
}

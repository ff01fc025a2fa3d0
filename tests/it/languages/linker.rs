//! Follow-ups that wait for other jobs, in every language: a job enqueues a batch that waits for it, and members.

use gristmill_tests::process::{Process, command};
use gristmill_tests::wait::{SOON, until};
use serde_json::{Value, json};

use super::{build, replace, require, unbuilt_project};

macro_rules! linkers {
    ($($language:ident: $($program:literal)+, $file:literal = $source:literal;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $language() {
            require(&[$($program),+]);
            enqueues_a_batch_and_its_members(stringify!($language), $file, include_str!(concat!("../../linkers/", $source))).await;
        }
    )*};
}

linkers! {
    rust: "cargo", "src/lib.rs" = "linker.rs";
    javascript: "node" "npm", "handler.js" = "linker.js";
    typescript: "node" "npm", "handler.ts" = "linker.ts";
    python: "python3", "handler.py" = "linker.py";
    go: "go", "handler.go" = "linker.go";
    c: "clang" "wasm-ld", "handler.c" = "linker.c";
    assemblyscript: "node" "npm", "assembly/handler.ts" = "linker.as.ts";
    zig: "zig", "handler.zig" = "linker.zig";
}

async fn enqueues_a_batch_and_its_members(language: &str, file: &str, source: &str) {
    let folder = unbuilt_project(language);
    let project = folder.path().join("welcome");
    std::fs::write(project.join(file), source).unwrap();
    let topic = "[topics.welcome]\nattempts = 1\nresult-retention = \"1h\"";
    replace(&project, "gristmill.toml", "[topics.welcome]", topic);
    build(&project, &[]);
    let manifest = project.join("gristmill.toml");
    let runner = Process::run(&manifest);
    until("the runner to be ready", 4 * SOON, async || runner.log().contains("ready for jobs").then_some(())).await;
    let said = |arguments: &[&str]| {
        let output = command(&manifest).args(arguments).output().unwrap();
        String::from_utf8_lossy(if output.status.success() { &output.stdout } else { &output.stderr }).into_owned()
    };
    let push = |body: &str| said(&["push", "welcome", "--wait", "--data", body]);
    let wrong = push("wrong");
    assert!(wrong.contains("`no id!` is no job id") && wrong.contains("rejected (enqueue-failed)"), "{wrong}");
    let batch = push("fan");
    let shown = || serde_json::from_str::<Value>(&said(&["job", "show", &batch, "--json"])).ok();
    let waiting = shown().unwrap();
    assert_eq!((&waiting["state"], &waiting["job"]["open"]), (&json!("waiting"), &json!(true)), "{waiting}");
    said(&["job", "seal", &batch]);
    let ended = until("the batch to be done", SOON, async || shown().filter(|job| job["state"] == "finished")).await;
    let result = ended["result"]["output"]["text"].as_str().unwrap_or_else(|| panic!("{ended}"));
    let jobs: Vec<Value> = serde_json::from_str(result).unwrap();
    let mut ends: Vec<_> = jobs.iter().map(|job| (job["ended"].as_str().unwrap(), job["text"].as_str())).collect();
    ends.sort();
    assert_eq!(ends, [("complete", Some(&*batch)), ("dead", None), ("dead", None)], "{result}");
}

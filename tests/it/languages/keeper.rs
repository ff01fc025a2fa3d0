//! The state of a key, in every language: what one job leaves, the next one of its key reads. The same components say how far they are, crash,
//! run out of stack and of memory.

use gristmill_tests::process::{Process, command};
use gristmill_tests::wait::{SOON, until};

use super::{build, replace, require, unbuilt_project};

macro_rules! keepers {
    ($($language:ident: $($program:literal)+, $file:literal = $source:literal;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $language() {
            require(&[$($program),+]);
            keeps_a_state_and_comes_to_bad_ends(stringify!($language), $file, include_str!(concat!("../../keepers/", $source))).await;
        }
    )*};
}

keepers! {
    rust: "cargo", "src/lib.rs" = "keeper.rs";
    javascript: "node" "npm", "handler.js" = "keeper.js";
    typescript: "node" "npm", "handler.ts" = "keeper.ts";
    python: "python3", "handler.py" = "keeper.py";
    go: "go", "handler.go" = "keeper.go";
    c: "clang" "wasm-ld", "handler.c" = "keeper.c";
    assemblyscript: "node" "npm", "assembly/handler.ts" = "keeper.as.ts";
    zig: "zig", "handler.zig" = "keeper.zig";
}

async fn keeps_a_state_and_comes_to_bad_ends(language: &str, file: &str, source: &str) {
    let folder = unbuilt_project(language);
    let project = folder.path().join("welcome");
    std::fs::write(project.join(file), source).unwrap();
    replace(
        &project,
        "gristmill.toml",
        "[topics.welcome]",
        "[topics.welcome]\nattempts = 2\nstate = true\nbackoff = \"1ms\"\ncheckpoint-limit = \"1KiB\"",
    );
    build(&project, &[]);
    let manifest = project.join("gristmill.toml");
    let runner = Process::run(&manifest);
    until("the runner to be ready", 4 * SOON, async || runner.log().contains("ready for jobs").then_some(())).await;
    let push = |key: &[&str], body: &str| {
        let push = command(&manifest).args(["push", "welcome", "--wait", "--data", body]).args(key).output().unwrap();
        String::from_utf8_lossy(if push.status.success() { &push.stdout } else { &push.stderr }).into_owned()
    };
    let seen = [("a", ""), ("a", "fail"), ("b", ""), ("a", "")].map(|(key, body)| push(&["--key", key], body));
    assert_eq!(seen, ["1", "2", "1", "3"], "an attempt that fails leaves the state as it was");
    let large = push(&["--key", "a"], "large");
    assert!(large.contains("rejected (checkpoint-failed)"), "{large}");
    let refused = push(&[], "");
    assert!(refused.contains("no-key"), "{refused}");

    let key = ["--key", "a"];
    assert_eq!(push(&key, "progress"), "");
    until("the progress to be logged", SOON, async || {
        runner.log().lines().any(|line| line.contains("half") && line.contains("5000")).then_some(())
    })
    .await;
    let crash = push(&key, "crash");
    names_its_place(&crash, file, source, "on purpose");
    let deep = push(&key, "deep");
    assert!(["stack", "recursion", "out of bounds"].iter().any(|text| deep.contains(text)), "{deep}");
    match language {
        "rust" | "c" | "zig" => assert!(deep.contains(&format!("at {file}:")), "{deep}"),
        "assemblyscript" => assert!(deep.contains("assembly/handler/deep"), "no places, but names: {deep}"),
        _ => {}
    }
    let hoard = push(&key, "hoard");
    assert!(["memory-exceeded", "out of memory", "MemoryError"].iter().any(|text| hoard.contains(text)), "{hoard}");
    assert_eq!(push(&key, ""), "4", "none of them changed the state");
}

/// The author's own words come first, and with them or below them stand the file and the line.
fn names_its_place(said: &str, file: &str, source: &str, text: &str) {
    let (words, _) = said.split_once("wasm ").unwrap_or((said, ""));
    assert!(words.contains(text), "{said}");
    let line = 1 + source.lines().position(|line| line.contains(text)).unwrap();
    // The second is Python's.
    let places = [format!("{file}:{line}"), format!("{file}\", line {line}")];
    assert!(places.iter().any(|place| said.contains(place)), "{places:?}: {said}");
}

//! The state of a key, in every language: what one job leaves, the next one of its key reads. The same components say how far they are, crash,
//! run out of stack and of memory.

use gristmill_tests::wait::{SOON, until};

use super::Language;

each_language!(keeps_a_state_and_comes_to_bad_ends);

async fn keeps_a_state_and_comes_to_bad_ends(language: &Language) {
    let topic = "attempts = 2\nbackoff = \"1ms\"\ncheckpoint-limit = \"1KiB\"\n";
    let (project, runner) = language.served(topic).await;
    let push = |key: &[&str], body: &str| {
        let push = project.run(&[&["push", "welcome", "--wait", "--data", body], key].concat());
        if push.code == 0 { push.text() } else { push.err }
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
    names_its_place(&crash, language, "on purpose");
    let deep = push(&key, "deep");
    assert!(["stack", "recursion", "out of bounds"].iter().any(|text| deep.contains(text)), "{deep}");
    match language.name {
        "rust" | "c" | "zig" => assert!(deep.contains(&format!("at {}:", language.file)), "{deep}"),
        "assemblyscript" => assert!(deep.contains("assembly/handler/deep"), "no places, but names: {deep}"),
        _ => {}
    }
    let hoard = push(&key, "hoard");
    assert!(["memory-exceeded", "out of memory", "MemoryError"].iter().any(|text| hoard.contains(text)), "{hoard}");
    assert_eq!(push(&key, ""), "4", "none of them changed the state");
}

/// The author's own words come first, and with them or below them stand the file and the line.
fn names_its_place(said: &str, language: &Language, text: &str) {
    let (words, _) = said.split_once("wasm ").unwrap_or((said, ""));
    assert!(words.contains(text), "{said}");
    let (file, source) = (language.file, language.source());
    let line = 1 + source.lines().position(|line| line.contains(text)).unwrap();
    // The second is Python's.
    let places = [format!("{file}:{line}"), format!("{file}\", line {line}")];
    assert!(places.iter().any(|place| said.contains(place)), "{places:?}: {said}");
}

//! Components that are too much for the compiler: it is a process of its own, and dies alone.

use gristmill_tests::guests;
use gristmill_tests::test_project::{Said, TestProject};
use gristmill_tests::test_runner::sandbox;
use gristmill_tests::wait::{SOON, until};

const LITTLE_MEMORY: &str = "[handlers]\ncompile-memory = \"256MiB\"";
const LITTLE_TIME: &str = "[handlers]\ncompile-timeout = \"1s\"";

/// The echo with a module behind it that nobody instantiates but that is compiled like any: four functions of a million
/// instructions. That takes gigabytes, and many seconds.
fn heavy() -> Vec<u8> {
    const FUNCTIONS: usize = 4;
    let popcnt = vec![0x69; 1_000_000];
    // No locals; local.get 0, popcnt over and over, end.
    let body = sized([&[0, 0x20, 0], popcnt.as_slice(), &[0x0b]].concat());
    let module = [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, vec![1, 0x60, 1, 0x7f, 1, 0x7f]),
        section(3, [&[FUNCTIONS as u8][..], &[0; FUNCTIONS]].concat()),
        section(10, [vec![FUNCTIONS as u8], body.repeat(FUNCTIONS)].concat()),
    ];
    [std::fs::read(guests::ECHO).unwrap(), section(1, module.concat())].concat()
}

fn section(id: u8, content: Vec<u8>) -> Vec<u8> {
    [vec![id], sized(content)].concat()
}

/// With its length in front, as LEB128.
fn sized(content: Vec<u8>) -> Vec<u8> {
    let mut length = content.len();
    let mut bytes = Vec::new();
    while length >= 0x80 {
        bytes.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    [bytes, content].concat()
}

async fn check(manifest: &str) -> Said {
    let project = TestProject::new(manifest, &[]).await;
    project.drop_in("heavy", &heavy());
    project.run(&["check"])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_needs_too_much_memory_to_compile_is_refused() {
    let said = check(LITTLE_MEMORY).await;
    let text = said.ended(1).text();
    assert!(text.contains("the compiler died") && text.contains("raise `compile-memory`"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_takes_too_long_to_compile_is_refused() {
    let said = check(LITTLE_TIME).await;
    let text = said.ended(1).text();
    assert!(text.contains("longer than 1s to compile") && text.contains("raise `compile-timeout`"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_survives_what_kills_its_compiler() {
    // The echo takes more than that, too, and comes from the cache.
    sandbox().load(&std::fs::read(guests::ECHO).unwrap()).await.unwrap();
    let project = TestProject::new(LITTLE_MEMORY, &[("echo", guests::ECHO)]).await;
    let runner = project.serve().await;
    project.drop_in("echo", &heavy());
    until("the refusal", SOON, async || runner.log().contains("the compiler died").then_some(())).await;
    assert_eq!(project.run(&["push", "echo", "--data", "still here", "--wait"]).done(), "still here");
}

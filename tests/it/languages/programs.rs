//! Programs of WASI preview 1, as a language's own compiler makes them, that know nothing of Gristmill.

use std::path::Path;
use std::process::Command;

use gristmill_tests::test_project::TestProject;

use super::require;

const MANIFEST: &str = r#"
[handlers]
compile-timeout = "10m"
[topics.program]
adapter = "command"
args = ["--colour", "never"]
random = true

[topics.program.env]
GRANTED = "yes"
"#;

/// What the program answers to `socket`: an error of its language, and no trap.
async fn carries_out(compiler: &mut Command, source: &str, no_socket: &str) {
    let project = TestProject::new(MANIFEST, &[]).await;
    let file = project.manifest().with_file_name("program.wasm");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(source);
    let built = compiler.arg("-o").arg(&file).arg(source).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let invoke = |body: &str| {
        let options = ["invoke", file.to_str().unwrap(), "--topic", "program", "--meta", "lang=de"];
        project.pipe(body.as_bytes(), &options)
    };
    let said = invoke("hello\nargs\nenv GRANTED\nenv GRISTMILL_META_LANG\nenv PATH\ntime\ntime\nsocket\nbye");
    let expected = format!("hello\nprogram --colour never\nyes\nde\nnot set\nnow\nnow\n{no_socket}\nbye\n");
    assert_eq!(said.ended(0).text(), expected, "{}", said.err);
    let long = "a line of some length\n".repeat(20_000);
    assert_eq!(invoke(&long).ended(0).text(), long);
    for (code, outcome) in [(1, "retry"), (3, "retry"), (65, "rejected")] {
        let said = invoke(&format!("exit {code}"));
        let line = format!("outcome  {outcome}: exit-{code}: no such customer");
        assert!(said.ended(4).err.starts_with(&line), "{}", said.err);
    }
    assert_eq!(invoke("exit 0").ended(0).text(), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_c_program_of_preview_1_does_jobs() {
    require(&["clang", "wasm-ld"]);
    let mut clang = Command::new("clang");
    clang.args(["--target=wasm32-wasi", "-std=c11", "-O1"]);
    carries_out(&mut clang, "program.c", "Bad file descriptor").await;
}

/// Go takes pages that an adapter adds to its memory for its own, which is why the standard adapter fails under it.
#[tokio::test(flavor = "multi_thread")]
async fn a_go_program_of_preview_1_does_jobs() {
    require(&["go"]);
    let mut go = Command::new("go");
    go.env("GOOS", "wasip1").env("GOARCH", "wasm").arg("build");
    carries_out(&mut go, "program.go", "true").await;
}

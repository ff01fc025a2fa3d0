//! `new` and `build`: names, the minimal project, and what a build lets through.

use std::path::Path;
use std::process::Command;

use gristmill_tests::guests;
use gristmill_tests::process::program;
use gristmill_tests::test_project::TestProject;
use puppet::MARKER;
use tempfile::TempDir;

/// A component whose self-test fails.
fn sick() -> Vec<u8> {
    let mut component = std::fs::read(guests::PUPPET).unwrap();
    let at = component.windows(15).position(|window| window == &MARKER[..15]).expect("the marker is there");
    component[at + 15..at + 25].copy_from_slice(b"6666666666");
    component
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_fails_its_self_test_is_refused_by_check_and_by_build_and_replaces_nothing() {
    let project = TestProject::new("[topics.puppet]\nclock = true\nrandom = true", &[]).await;
    project.drop_in("puppet", &sick());
    let text = project.run(&["check"]).ended(1).text();
    assert!(text.contains("handlers/puppet.wasm cannot be used\n  the self-test says: "), "{text}");

    let served = std::fs::read(guests::PUPPET).unwrap();
    project.drop_in("puppet", &served);
    let source = TempDir::with_prefix("gristmill-").unwrap();
    std::fs::write(source.path().join("sick.wasm"), sick()).unwrap();
    let lines =
        "name = \"puppet\"\nlanguage = \"none\"\nbuild = [\"cp sick.wasm built.wasm\"]\ncomponent = \"built.wasm\"\n";
    std::fs::write(source.path().join("handler.toml"), lines).unwrap();
    let said = project.run(&["build", source.path().to_str().unwrap()]);
    assert!(said.ended(1).err.contains("built.wasm is not used: the self-test says: "), "{}", said.err);
    assert!(std::fs::read(project.handlers().join("puppet.wasm")).unwrap() == served);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_line_of_a_failed_build_is_short_and_stands_below_what_the_compiler_said() {
    let project = TestProject::new("", &[]).await;
    let source = TempDir::with_prefix("gristmill-").unwrap();
    let lines =
        "name = \"a\"\nlanguage = \"none\"\nbuild = [\"echo expected a semicolon; exit 3\"]\ncomponent = \"a.wasm\"\n";
    std::fs::write(source.path().join("handler.toml"), lines).unwrap();
    let said = project.run(&["build", source.path().to_str().unwrap()]);
    let end = "\nexpected a semicolon\nerror: a line of handler.toml failed: `echo …` ended with exit status: 3\n";
    assert!(said.ended(1).err.ends_with(end), "{}", said.err);
}

fn new(folder: &Path, arguments: &[&str]) -> (bool, String) {
    run(folder, "new", arguments)
}

fn run(folder: &Path, command: &str, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(program()).arg(command).args(arguments).current_dir(folder).output().unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

/// As npm does, which fetches other packages, too.
const LINKED: &str =
    "mkdir node_modules && ln -s ../gristmill-guest node_modules/gristmill-guest && node --test handler.test.js";

#[test]
fn a_minimal_project_has_the_files_of_the_full_one_and_passes_its_tests() {
    crate::languages::require(&["node", "python3", "go", "clang", "zig"]);
    let folder = TempDir::with_prefix("gristmill-").unwrap();
    for (language, test) in [
        ("rs", None),
        ("ts", None),
        ("js", Some(LINKED)),
        ("py", Some("PYTHONPATH=gristmill-guest python3 -m unittest")),
        ("go", Some("go test .")),
        ("c", Some("clang -I gristmill-guest handler_test.c handler.c gristmill-guest/json.c -o test && ./test")),
        (
            "zig",
            Some(
                "zig test --dep gristmill -Mroot=handler_test.zig -Mgristmill=gristmill-guest/gristmill.zig \
                 --cache-dir cache",
            ),
        ),
        ("as", None),
    ] {
        let name = format!("hello-{language}");
        let (made, said) = new(folder.path(), &[&name, "--lang", language, "--minimal"]);
        assert!(
            made && said.contains(&format!("gristmill push {name} --data '{{\"name\": \"Ada\"}}' --wait")),
            "{said}"
        );
        let project = folder.path().join(&name);
        let manifest = std::fs::read_to_string(project.join("gristmill.toml")).unwrap();
        assert!(
            manifest.contains(&format!("[topics.{name}]")) && project.join("gristmill-guest/wit/job.wit").exists(),
            "{manifest}"
        );
        assert!(!project.join("src/tests.rs").exists());
        if let Some(test) = test {
            let output = Command::new("sh").args(["-c", test]).current_dir(&project).output().unwrap();
            assert!(output.status.success(), "{language}: {output:?}");
        }
    }
    let (made, said) = new(folder.path(), &["My Topic", "--lang", "js"]);
    assert!(!made && said.contains("`my-topic` is one"), "{said}");
}

#[test]
fn an_update_replaces_the_sdk_of_a_project_and_nothing_else() {
    let folder = TempDir::with_prefix("gristmill-").unwrap();
    for (language, sdk, others, handler) in [
        ("rust", "gristmill-guest/src/http.rs", "gristmill-guest/Cargo.toml", "src/lib.rs"),
        ("js", "gristmill-guest/web/fetch.js", "gristmill-guest/build.js", "handler.js"),
        ("ts", "gristmill-guest/index.js", "gristmill-guest/types/index.d.ts", "handler.ts"),
        ("py", "gristmill-guest/gristmill_guest/_http.py", "gristmill-guest/pyproject.toml", "handler.py"),
        ("go", "gristmill-guest/state.go", "gristmill-guest/go.mod", "handler.go"),
        ("c", "gristmill-guest/json.c", "gristmill-guest/gristmill_fake.h", "handler.c"),
        ("as", "gristmill-guest/contract.ts", "gristmill-guest/testing.mjs", "assembly/handler.ts"),
        ("zig", "gristmill-guest/contract.zig", "gristmill-guest/fake.zig", "handler.zig"),
    ] {
        let (made, said) = new(folder.path(), &[language, "--lang", language]);
        assert!(made, "{said}");
        let project = folder.path().join(language);
        let read = |path: &str| std::fs::read_to_string(project.join(path)).unwrap();
        let write = |path: &str, text: &str| std::fs::write(project.join(path), text).unwrap();
        let update = |arguments: &[&str]| run(&project, "update", arguments);
        assert_eq!(update(&[]), (true, ". has the SDK of this version\n".to_owned()));

        let (before, settings) = (read(sdk), read("handler.toml") + "# mine\n");
        write(sdk, "old");
        write("handler.toml", &settings);
        std::fs::remove_file(project.join("gristmill-guest/wit/job.wit")).unwrap();
        let (done, said) = update(&[]);
        let mut updated = [sdk, "gristmill-guest/wit/job.wit"];
        updated.sort();
        let [first, second] = updated;
        let begin =
            format!("would be updated: {first}\nwould be updated: {second}\nyours, and not changed: handler.toml. ");
        assert!(
            done && said.starts_with(&begin) && said.ends_with("nothing was written: add --yes to do it\n"),
            "{said}"
        );
        assert_eq!(read(sdk), "old");
        let (done, said) = update(&["--yes"]);
        assert!(done && said.starts_with(&format!("updated: {first}\nupdated: {second}\n")), "{said}");
        assert_eq!((read(sdk), read("handler.toml")), (before, settings));

        for path in [sdk, others, handler, "README.md", "gristmill.toml"] {
            write(path, "");
        }
        assert!(update(&["--yes"]).0);
        assert!([sdk, others].iter().all(|path| !read(path).is_empty()), "{language}");
        assert!([handler, "README.md", "gristmill.toml"].iter().all(|path| read(path).is_empty()), "{language}");
    }
    let strange = "name = \"a\"\nlanguage = \"cobol\"\nbuild = []\ncomponent = \"a\"\n";
    std::fs::write(folder.path().join("handler.toml"), strange).unwrap();
    let (done, said) = run(folder.path(), "update", &[]);
    assert!(!done && said.contains("`language = \"cobol\"` in ./handler.toml is none of those"), "{said}");
}

#[test]
fn a_project_whose_sdk_is_beside_its_handler_keeps_it_and_is_told_how_to_move() {
    let folder = TempDir::with_prefix("gristmill-").unwrap();
    assert!(new(folder.path(), &["former", "--lang", "js"]).0);
    let project = folder.path().join("former");
    std::fs::rename(project.join("gristmill-guest/index.js"), project.join("gristmill.js")).unwrap();
    std::fs::remove_dir_all(project.join("gristmill-guest")).unwrap();
    std::fs::write(project.join("package.json"), "{}").unwrap();
    let how = "\nthis project builds with an older SDK, whose files are beside its handler. To move to this one: take over the \
               settings and the imports of a new project, then delete those files\n";
    for arguments in [&[][..], &["--yes"]] {
        let (done, said) = run(&project, "update", arguments);
        assert!(done && said.contains(how) && said.contains("not changed: package.json. "), "{said}");
    }
    assert!(project.join("gristmill.js").exists());
    std::fs::write(project.join("gristmill-guest/host.js"), "old").unwrap();
    let (_, said) = run(&project, "update", &[]);
    assert!(said.starts_with("would be updated: gristmill-guest/host.js\n") && !said.contains("older SDK"), "{said}");
}

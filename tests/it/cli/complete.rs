//! Completions in a shell while a server runs: topics, ids of jobs and tenants besides the grammar's own words.

use std::process::Command;

use gristmill_tests::guests;
use gristmill_tests::process::program;
use gristmill_tests::test_project::TestProject;

/// Does what bash does when the tab key is pressed after the last word.
const PRESS: &str = r#"
    source "$1"; shift
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _gristmill "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    printf '%s\n' "${COMPREPLY[@]}""#;

/// What is offered for the last word of a line.
fn offered(project: &TestProject, line: &str) -> Vec<String> {
    let script = project.manifest().with_file_name("completions");
    std::fs::write(&script, project.run(&["completions", "bash"]).done()).unwrap();
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", PRESS, "bash"]).arg(script).arg(program()).arg("-m").arg(project.manifest());
    let output = bash.args(line.split(' ')).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_completes_topics_ids_and_tenants_from_the_server() {
    let manifest = "[topics]\necho = {}\nexport = { handler = \"echo\" }\n\
                    [tenants.acme.topics]\nmail = { handler = \"external\" }\n";
    let project = TestProject::new(manifest, &[("echo", guests::ECHO)]).await;
    // What the files say is known without a server; jobs are not.
    assert_eq!(offered(&project, "push e"), ["echo", "export"]);
    assert!(offered(&project, "job show ").iter().all(|word| word.starts_with('-')));
    project.run(&["push", "acme/mail", "--id", "letter-1", "--data", "x"]).done();
    project.run(&["push", "acme/mail", "--id", "letter-2", "--data", "x"]).done();

    let _runner = project.serve().await;
    assert_eq!(offered(&project, "push e"), ["echo", "export"]);
    assert_eq!(offered(&project, "push acme/"), ["acme/mail"]);
    assert_eq!(offered(&project, "push --tenant acme m"), ["mail"]);
    assert_eq!(offered(&project, "jobs --tenant "), ["acme", "default"]);
    assert_eq!(offered(&project, "jobs --tenant = a"), ["acme"]);
    assert_eq!(offered(&project, "job cancel --tenant acme letter-2 letter-1"), ["letter-1"]);
    let mut letters = offered(&project, "job why --tenant acme ");
    letters.sort();
    assert_eq!(letters, ["letter-1", "letter-2"]);
    assert!(offered(&project, "dead show acme/mail ").iter().all(|word| word.starts_with('-')), "none is dead");
    // The grammar's own words are completed as before.
    assert!(offered(&project, "push --dat").contains(&"--data".to_owned()));
    assert!(offered(&project, "pu").contains(&"push".to_owned()));
}

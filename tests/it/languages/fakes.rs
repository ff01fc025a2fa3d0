//! What stands for the runner in the tests of a language whose example does not call all that there is.

use super::{build, require, unbuilt_project};

#[test]
fn the_fake_of_assemblyscript_has_all_that_the_runner_offers() {
    require(&["node", "npm"]);
    let folder = unbuilt_project("assemblyscript");
    let project = folder.path().join("welcome");
    std::fs::write(project.join("assembly/handler.ts"), include_str!("../../fakes/handler.as.ts")).unwrap();
    std::fs::write(project.join("tests/handler.test.mjs"), include_str!("../../fakes/handler.test.mjs")).unwrap();
    let manifest = project.join("gristmill.toml");
    let granted = std::fs::read_to_string(&manifest).unwrap() + "\n[topics.welcome.http]\nallow = [\"example.org\"]\n";
    std::fs::write(&manifest, granted).unwrap();
    build(&project, &["--test"]);
}

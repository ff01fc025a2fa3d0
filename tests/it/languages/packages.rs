//! The SDKs as packages of npm: what is packed, what TypeScript is told of it, and when a project installs it anew.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use super::{build, cases, loaded, replace, require, unbuilt_project};

/// Puts the package into a file beside the project, as for npm's registry. In a copy, since that writes into the package's folder.
const PACK: &str = r#"mkdir guest-sdk && cp -R "$0/wit" . && cp -R "$0/guest-sdk/javascript" guest-sdk && cd guest-sdk/javascript &&
    npm pack --pack-destination ../.."#;

#[tokio::test(flavor = "multi_thread")]
async fn a_project_that_depends_on_the_packed_package_is_built() {
    require(&["node", "npm"]);
    let folder = unbuilt_project("typescript");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let pack = Command::new("sh").args(["-c", PACK]).arg(root).current_dir(folder.path()).output().unwrap();
    assert!(pack.status.success(), "{}", String::from_utf8_lossy(&pack.stderr));
    let project = folder.path().join("welcome");
    std::fs::remove_dir_all(project.join("gristmill-guest")).unwrap();
    replace(&project, "package.json", "file:gristmill-guest", "file:../gristmill-guest-0.1.0.tgz");
    build(&project, &["--test"]);
    let (component, topic) = loaded(&project).await;
    for case in cases::all() {
        case.hold(&component, &topic).await;
    }
}

/// What TypeScript is told of the SDK is what the SDK has.
#[test]
fn the_declarations_are_those_of_the_implementation() {
    require(&["node", "npm"]);
    let folder = unbuilt_project("typescript");
    let project = folder.path().join("welcome");
    build(&project, &[]);
    std::fs::write(project.join("declarations.ts"), include_str!("../../javascript/declarations.ts")).unwrap();
    let check = || {
        let options = "--allowJs --checkJs --skipLibCheck false --useUnknownInCatchVariables false".split(' ');
        let tsc = Command::new("node_modules/.bin/tsc").args(options).current_dir(&project).output().unwrap();
        (tsc.status.success(), String::from_utf8(tsc.stdout).unwrap())
    };
    assert_eq!(check(), (true, String::new()));
    for (file, from, to, problem) in [
        (
            "types/index.d.ts",
            "isCancelled(): boolean",
            "isCancelled(): string",
            "The types returned by 'isCancelled()'",
        ),
        ("types/index.d.ts", "export function isCancelled(): string;", "", "'\"isCancelled\"'"),
        ("testing.js", "this.denied = denied;", "", "'denied'"),
    ] {
        replace(&project.join("gristmill-guest"), file, from, to);
        let (passed, said) = check();
        assert!(!passed && said.contains(problem), "{problem}: {said}");
    }
}

#[test]
fn a_project_installs_its_packages_when_the_list_of_them_is_new_and_at_no_other_time() {
    require(&["node", "npm"]);
    let folder = unbuilt_project("javascript");
    let project = folder.path().join("welcome");
    let installed = || -> SystemTime {
        build(&project, &[]);
        std::fs::metadata(project.join("node_modules/.package-lock.json")).unwrap().modified().unwrap()
    };
    let mut before = installed();
    assert_eq!(installed(), before);
    for list in ["package.json", "gristmill-guest/package.json"] {
        let file = std::fs::File::options().append(true).open(project.join(list)).unwrap();
        file.set_modified(before + Duration::from_millis(1)).unwrap();
        let after = installed();
        assert!(after > before, "{list}");
        before = after;
    }
}

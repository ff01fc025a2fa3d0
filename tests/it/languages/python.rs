//! What a build says of packages that a component cannot load, without the seconds of a whole build.

use std::path::Path;
use std::process::{Command, Output};

use super::{require, unbuilt_project};

/// Runs the line of the build that looks at the handler before `componentize-py` does.
fn check(project: &Path, handler: &str) -> Output {
    let handler = format!("{handler}\nfrom gristmill_guest import handler\n\n@handler\ndef go(job):\n    pass\n");
    std::fs::write(project.join("handler.py"), handler).unwrap();
    let check = ["-B", "-m", "gristmill_guest.check", "handler"];
    Command::new("python3").args(check).env("PYTHONPATH", "gristmill-guest").current_dir(project).output().unwrap()
}

/// What it says. None: it found nothing.
fn said(project: &Path, handler: &str) -> Option<String> {
    let output = check(project, handler);
    (!output.status.success()).then(|| String::from_utf8(output.stderr).unwrap())
}

/// Whatever a component imports its topic has to grant.
#[test]
fn a_component_is_built_for_the_world_that_has_what_its_handler_imports_and_no_more() {
    require(&["python3"]);
    let folder = unbuilt_project("python");
    let project = folder.path().join("welcome");
    for (handler, world) in [
        ("", "job-handler\n"),
        ("from gristmill_guest import http", "job-handler-http\n"),
        ("import urllib.request", "job-handler-http\n"),
        ("from gristmill_guest import state", "job-handler-state\n"),
        ("from gristmill_guest import http, state", "job-handler-all\n"),
    ] {
        assert_eq!(String::from_utf8_lossy(&check(&project, handler).stdout), world, "{handler}");
    }
}

#[test]
fn a_package_that_is_compiled_for_this_machine_is_refused_by_name_unless_there_is_a_way_around() {
    require(&["python3"]);
    let folder = unbuilt_project("python");
    let project = folder.path().join("welcome");
    let write = |path: &str, text: &str| {
        let path = project.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    // Never loaded, so it may be empty.
    write("fast/_speedups.abi3.so", "");
    write("fast/__init__.py", "from fast._speedups import grind\n");
    write("Fast_Stone-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: Fast-Stone\nVersion: 1.0\n");
    write("Fast_Stone-1.0.dist-info/top_level.txt", "fast\n");
    write("either.py", "try:\n    from fast import grind\nexcept ImportError:\n    grind = None\n");
    let refused = said(&project, "import fast").unwrap();
    assert!(refused.contains("handler.py\", line 1"), "{refused}");
    assert!(refused.contains("error: the package `Fast-Stone` needs `fast._speedups`, which is compiled"), "{refused}");
    assert_eq!(
        said(&project, "import either, ssl, sqlite3"),
        None,
        "a component may do without, and CPython's own are not packages"
    );
    let other = said(&project, "import either\nimport nowhere").unwrap();
    assert!(other.contains("No module named 'nowhere'") && !other.contains("compiled"), "{other}");
}

//! The packages of a release: that they can be made, of the same bytes each time, and that one of them runs. `scripts/release.sh --check` installs all.

use std::path::{Path, PathBuf};
use std::process::Command;

use gristmill_tests::guests;
use gristmill_tests::process::program;
use tempfile::TempDir;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn done(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {out}{err}");
    out.into_owned()
}

/// What is generated for the packages, in a folder: the handlers are those that a job needs.
fn staged(folder: &Path) {
    done(Command::new(root().join("packaging/sbom.py")).args(["x86_64-unknown-linux-gnu", "0123abc"]).arg(folder));
    done(Command::new(program()).arg("man").arg(folder.join("man")));
    std::fs::create_dir(folder.join("completions")).unwrap();
    for (shell, name) in [("bash", "gristmill"), ("zsh", "_gristmill"), ("fish", "gristmill.fish")] {
        let script = done(Command::new(program()).args(["completions", shell]));
        std::fs::write(folder.join("completions").join(name), script).unwrap();
    }
    std::fs::create_dir(folder.join("handlers")).unwrap();
    std::fs::copy(guests::ECHO, folder.join("handlers/echo.wasm")).unwrap();
}

/// The packages of a binary, in a new folder; `only` some of them.
fn pack(binary: &Path, staged: &Path, only: &str) -> TempDir {
    let out = TempDir::new().unwrap();
    let mut command = Command::new(root().join("packaging/pack.py"));
    command.args(["--target", "x86_64-unknown-linux-gnu", "--only", only]).arg("--binary").arg(binary);
    command.env("GRISTMILL_COMPRESSION", "1").arg("--staged").arg(staged).arg("--out").arg(out.path());
    done(&mut command);
    out
}

/// The same apt repository, signed by a new key, and unpacked.
fn signed_apt(binary: &Path, staged: &Path) -> TempDir {
    let (home, out) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let key = "release@gristmill.test";
    // Older than what it signs.
    let of_2001 = ["--batch", "--quiet", "--passphrase", "", "--faked-system-time", "1000000000"];
    let make = ["--quick-generate-key", key, "ed25519", "sign", "never"];
    done(Command::new("gpg").env("GNUPGHOME", home.path()).args(of_2001).args(make));
    let mut command = Command::new(root().join("packaging/pack.py"));
    command.args(["--target", "x86_64-unknown-linux-gnu", "--only", "apt", "--staged"]).arg(staged);
    command.arg("--binary").arg(binary).arg("--out").arg(out.path()).env("SOURCE_DATE_EPOCH", "1100000000");
    done(command.env("GRISTMILL_COMPRESSION", "1").env("GNUPGHOME", home.path()).env("GRISTMILL_APT_KEY", key));
    done(Command::new("tar").arg("-xzf").arg(out.path().join("gristmill-apt.tar.gz")).arg("-C").arg(out.path()));
    out
}

/// By the path of each: what is in it.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn a_package_is_made_of_the_same_bytes_each_time_and_a_job_is_done_with_it() {
    let folder = TempDir::new().unwrap();
    staged(folder.path());
    // A small program stands for the binary where only the form of a package matters.
    let small = Path::new("/usr/bin/env");
    let (first, second) =
        (pack(small, folder.path(), "deb apt image wheel npm"), pack(small, folder.path(), "deb apt image wheel npm"));
    let names: Vec<_> = files(first.path()).into_iter().map(|(name, _)| name).collect();
    for end in [".deb", "-apt.tar.gz", ".oci.tar", ".whl", "-0.1.0.tgz"] {
        assert!(names.iter().any(|name| name.ends_with(end)), "no {end} in {names:?}");
    }
    assert!(files(first.path()) == files(second.path()), "{names:?} differ from one time to the next");

    let package = pack(&program(), folder.path(), "tarball");
    done(Command::new(root().join("packaging/check.py")).arg(package.path()).arg("tarball"));
}

#[test]
fn an_apt_repository_is_signed_by_the_key_that_comes_with_it() {
    let folder = TempDir::new().unwrap();
    staged(folder.path());
    let repository = signed_apt(Path::new("/usr/bin/env"), folder.path());
    let path = |name: &str| repository.path().join(name);
    done(Command::new("gpg").arg("--dearmor").arg("--output").arg(path("key.gpg")).arg(path("gristmill.asc")));
    let verify = || {
        let mut gpgv = Command::new("gpgv");
        gpgv.arg("--keyring")
            .arg(path("key.gpg"))
            .arg(path("dists/stable/Release.gpg"))
            .arg(path("dists/stable/Release"));
        gpgv.output().unwrap().status.success()
    };
    assert!(verify());
    done(Command::new("gpgv").arg("--keyring").arg(path("key.gpg")).arg(path("dists/stable/InRelease")));
    let release = std::fs::read_to_string(path("dists/stable/Release")).unwrap();
    std::fs::write(path("dists/stable/Release"), release.replace("amd64", "arm64")).unwrap();
    assert!(!verify(), "it is not what was signed");
}

#[test]
fn a_release_says_of_which_crates_it_is() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    done(
        Command::new(root().join("packaging/sbom.py")).args(["x86_64-unknown-linux-gnu", "0123abc"]).arg(folder.path()),
    );
    // As scripts/release.sh does it.
    let section = |name: &str, file: &str| format!("--add-section={name}={}", path(file).display());
    let sections = [section(".dep-v0", "packages.zlib"), section(".gristmill", "about.json")];
    done(Command::new("objcopy").args(sections).arg("/usr/bin/env").arg(path("binary")));

    let listed = done(Command::new(program()).arg("verify").arg(path("binary")).arg("--sbom"));
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let named =
        |name: &str| listed["packages"].as_array().unwrap().iter().find(|package| package["name"] == name).cloned();
    assert_eq!(named("gristmill").unwrap()["root"], true);
    assert_eq!(named("wasmtime").unwrap()["source"], "crates.io");
    assert!(named("tempfile").is_some() && named("criterion").is_none(), "what only tests need is not in it");

    // There is no signature beside it.
    let key = "RWRlRt77nsODhKb8ama837LV0/fmtSOtwkeWxptEjp4e7l3XzgvSxnC8";
    let verified =
        Command::new(program()).args(["--json", "verify", "--key", key]).arg(path("binary")).output().unwrap();
    let said: serde_json::Value = serde_json::from_slice(&verified.stdout).unwrap();
    assert_eq!((verified.status.code(), &said["about"]["commit"]), (Some(1), &"0123abc".into()));
    assert_eq!(said["signature"]["good"], false);
}

#[test]
fn the_schema_of_the_manifest_is_that_of_its_reference() {
    done(Command::new(root().join("packaging/schema.py")).arg("--check"));
}

#[test]
fn alerts_and_the_dashboard_ask_for_metrics_that_there_are() {
    let reference = std::fs::read_to_string(root().join("docs/reference/metrics.md")).unwrap();
    for file in ["alerts.yaml", "dashboard.json"] {
        let text = std::fs::read_to_string(root().join("packaging").join(file)).unwrap();
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let metrics: std::collections::BTreeSet<_> = words.filter(|word| word.starts_with("gristmill_")).collect();
        assert!(metrics.len() > 8, "{file}: {metrics:?}");
        for metric in metrics {
            let name = metric.trim_end_matches("_bucket");
            let short = name.strip_prefix("gristmill_node").unwrap_or(name);
            let is_known = reference.contains(&format!("`{name}`")) || reference.contains(&format!("`…{short}`"));
            assert!(is_known, "{file}: docs/reference/metrics.md has no {name}");
        }
    }
}

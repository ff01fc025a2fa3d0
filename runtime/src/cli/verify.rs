//! `gristmill verify`: what a release's binary says about itself, and whether its signature holds. The binary is read, not run.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use flate2::read::ZlibDecoder;
use minisign_verify::{PublicKey, Signature};
use object::{Object, ObjectSection};
use serde_json::{Value, json};

use super::exit::{Exit, Usage};
use super::global::Global;
use super::screen;

/// Added by `scripts/release.sh`: version, commit, target and compiler, as JSON.
const ABOUT: &str = ".gristmill";
/// The crates that were compiled in, as cargo-auditable writes them: scanners for known holes in binaries also read it.
const PACKAGES: &str = ".dep-v0";
const PACKAGES_BYTES: u64 = 16 << 20;
/// The public key of releases, if the builder named one.
const KEY: Option<&str> = option_env!("GRISTMILL_RELEASE_KEY");

/// Say which version and commit a binary is of, and whether its signature holds
///
/// The exit code is 0 if the signature was made with the key, and 1 if not or if there is none.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gristmill verify /usr/bin/gristmill --signature gristmill.minisig --key minisign.pub
  gristmill verify ./gristmill --sbom > packages.json")]
pub(super) struct Args {
    /// The binary
    file: PathBuf,
    /// Its minisign signature [default: FILE.minisig]
    #[arg(long, value_name = "PATH")]
    signature: Option<PathBuf>,
    /// The public key of minisign: its text, or a file [default: that of the releases, where this is one]
    #[arg(long, value_name = "KEY", env = "GRISTMILL_RELEASE_KEY")]
    key: Option<String>,
    /// Write the list of the crates in the binary to standard output, as JSON, and look at no signature
    #[arg(long)]
    sbom: bool,
}

pub(super) fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    let Args { file, signature, key, sbom } = args;
    let bytes = std::fs::read(&file).with_context(|| format!("failed to read {}", file.display()))?;
    let (about, packages) = sections(&bytes).with_context(|| format!("failed to read {}", file.display()))?;
    if sbom {
        return screen::document(&packages).map(|()| Exit::Done);
    }
    let signature = signature.unwrap_or_else(|| PathBuf::from(format!("{}.minisig", file.display())));
    let outcome = check(&bytes, &signature, key.as_deref().or(KEY))?;
    let count = packages.get("packages").and_then(Value::as_array).map_or(0, Vec::len);
    if global.json {
        let signature = json!({ "good": outcome.is_ok(), "said": outcome.as_ref().unwrap_or_else(|no| no) });
        let file = file.to_string_lossy();
        screen::document(&json!({ "file": file, "about": about, "packages": count, "signature": signature }))?;
    } else {
        let said = |key: &str| about.get(key).and_then(Value::as_str).unwrap_or("unknown").to_owned();
        let lines = ["version", "commit", "target", "rustc"].map(|key| format!("{key}: {}", said(key)));
        let signature = match &outcome {
            Ok(comment) => format!("good ({comment})"),
            Err(problem) => format!("NOT GOOD: {problem}"),
        };
        screen::line(&format!("{}\npackages: {count} (--sbom lists them)\nsignature: {signature}", lines.join("\n")))?;
    }
    Ok(if outcome.is_ok() { Exit::Done } else { Exit::Failed })
}

/// What the binary says about itself, and the crates in it.
fn sections(bytes: &[u8]) -> anyhow::Result<(Value, Value)> {
    let file = object::File::parse(bytes).context("it is no program")?;
    let section = |name| file.section_by_name(name).and_then(|section| section.data().ok());
    let (Some(about), Some(packages)) = (section(ABOUT), section(PACKAGES)) else {
        bail!("it says nothing about itself: it is no release of gristmill");
    };
    let mut text = Vec::new();
    ZlibDecoder::new(packages).take(PACKAGES_BYTES).read_to_end(&mut text).context("its list of crates is damaged")?;
    let packages = serde_json::from_slice(&text).context("its list of crates is damaged")?;
    Ok((serde_json::from_slice(about).context("what it says about itself is damaged")?, packages))
}

/// `Ok`: the trusted comment of a signature that holds. `Err`: why it does not.
fn check(bytes: &[u8], signature: &Path, key: Option<&str>) -> anyhow::Result<Result<String, String>> {
    let Some(key) = key else {
        return Err(Usage("no public key is built in: name one with --key".into()).into());
    };
    let text = if Path::new(key).is_file() {
        std::fs::read_to_string(key).context("failed to read the key")?
    } else {
        key.to_owned()
    };
    // A key's file has a comment before it.
    let line = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    let key = PublicKey::from_base64(line.trim()).map_err(|_| Usage("--key is no public key of minisign".into()))?;
    let read = match Signature::from_file(signature) {
        Ok(read) => read,
        Err(error) => return Ok(Err(format!("failed to read {}: {error}", signature.display()))),
    };
    let verified = key.verify(bytes, &read, false);
    Ok(verified.map(|()| read.trusted_comment().to_owned()).map_err(|error| error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by minisign, as is the signature: of the bytes `a binary`.
    const KEY: &str = "RWRlRt77nsODhKb8ama837LV0/fmtSOtwkeWxptEjp4e7l3XzgvSxnC8";
    const SIGNATURE: &str = "\
untrusted comment: signature from minisign secret key
RURlRt77nsODhPSf8NlJZGg+plvYepF/meyg6Z4gz1K9PKq+a0LjYYhT3SEe5VBAp0+zKNiFclKt+sOGrjsDby1MBQfdzf22FQM=
trusted comment: gristmill 0123abc
hLQhaZN+tib7wKV63A6GxBFwQW3tK+UNLETp7ImvhS26UnFRELgbIhFRxx4reRwGHtkW7My+YEdZtqawXnBJAg==
";

    #[test]
    fn a_signature_holds_for_the_bytes_and_the_key_that_made_it_only() {
        let folder = tempfile::tempdir().unwrap();
        let (signature, key) = (folder.path().join("a.minisig"), folder.path().join("key.pub"));
        std::fs::write(&signature, SIGNATURE).unwrap();
        std::fs::write(&key, format!("untrusted comment: minisign public key\n{KEY}\n")).unwrap();
        let check = |bytes: &[u8], key: &str| check(bytes, &signature, Some(key)).unwrap();
        assert_eq!(check(b"a binary", KEY).unwrap(), "gristmill 0123abc");
        assert_eq!(check(b"a binary", key.to_str().unwrap()).unwrap(), "gristmill 0123abc");
        assert!(check(b"a binarx", KEY).is_err());
        let other = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
        assert!(check(b"a binary", other).is_err());
        assert!(super::check(b"a binary", Path::new("gone.minisig"), Some(KEY)).unwrap().is_err());
        assert!(super::check(b"a binary", &signature, Some("no key")).is_err());
    }

    #[test]
    fn what_is_no_release_says_nothing_about_itself() {
        assert!(format!("{:#}", sections(b"#!/bin/sh").unwrap_err()).contains("no program"));
        let this = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(format!("{:#}", sections(&this).unwrap_err()).contains("no release"));
    }
}

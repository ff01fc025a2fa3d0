//! Runs the shell lines of a `handler.toml`, and shows each as it begins.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, anyhow, bail};

use super::super::screen;
use super::file::{FILE, Need};

/// # Errors
/// The first program that is not on the search path, with what to do about it.
pub(super) fn look_for(needs: &[Need], path: &OsStr) -> anyhow::Result<()> {
    for Need { command, hint } in needs {
        if !std::env::split_paths(path).any(|folder| folder.join(command).is_file()) {
            bail!("there is no `{command}` on the search path; {hint}");
        }
    }
    Ok(())
}

/// Runs the lines one after the other in the project's folder. What they print goes to standard error: standard output
/// is ours.
///
/// # Errors
/// The first line that does not end well.
pub(super) fn run(lines: &[String], project: &Path) -> anyhow::Result<()> {
    for line in lines {
        screen::note(&format!("$ {line}"));
        let output = std::io::stderr().as_fd().try_clone_to_owned().context("failed to share standard error")?;
        let status = Command::new("sh")
            .args(["-euc", line])
            .current_dir(project)
            .stdin(Stdio::null())
            .stdout(output)
            .status()
            .context("failed to start `sh`")?;
        if !status.success() {
            return Err(anyhow!("a line of {FILE} failed ({status}): {line}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_with_what_to_do() {
        let need = |command: &str| [Need { command: command.into(), hint: "install it".into() }];
        let path = std::env::var_os("PATH").unwrap();
        look_for(&need("sh"), &path).unwrap();
        let error = look_for(&need("no-such-program"), &path).unwrap_err().to_string();
        assert!(error.contains("no-such-program") && error.contains("install it"), "{error}");
    }

    #[test]
    fn lines_run_in_the_projects_folder_until_one_fails() {
        let folder = tempfile::tempdir().unwrap();
        let lines = ["echo 1 >one", "cat nothing-there 2>/dev/null", "echo 2 >two"].map(str::to_owned);
        let error = run(&lines, folder.path()).unwrap_err().to_string();
        assert!(error.contains("nothing-there") && error.contains("exit status: 1"), "{error}");
        assert!(folder.path().join("one").exists() && !folder.path().join("two").exists());
    }
}

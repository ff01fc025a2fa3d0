//! Runs the shell lines of a `handler.toml`, and shows each as it begins.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

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
/// is ours. Dropping the future ends the line that runs, with every process that it started.
///
/// # Errors
/// The first line that does not end well.
pub(super) async fn run(lines: &[String], project: &Path) -> anyhow::Result<()> {
    for line in lines {
        screen::note(&format!("$ {}", shortened(line)));
        let output = std::io::stderr().as_fd().try_clone_to_owned().context("failed to share standard error")?;
        let mut shell = Command::new("sh")
            .args(["-euc", line])
            .current_dir(project)
            .stdin(Stdio::null())
            .stdout(output)
            .process_group(0)
            .spawn()
            .context("failed to start `sh`")?;
        let group = Group::of(&shell);
        let status = shell.wait().await.context("failed to wait for `sh`")?;
        group.has_ended();
        if !status.success() {
            // The beginning of the line, and all that it says, was shown: the cause is not pushed out of sight.
            let program = line.split_whitespace().next().unwrap_or_default();
            return Err(anyhow!("a line of {FILE} failed: `{program} …` ended with {status}"));
        }
    }
    Ok(())
}

/// The line as far as a person reads it; the file has the rest.
fn shortened(line: &str) -> String {
    const SHOWN: usize = 100;
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{} …", line[..end].trim_end()),
        None => line.to_owned(),
    }
}

/// The processes of a line. They are in a group of their own, so that compilers end with the shell that started them.
#[derive(Debug)]
pub(in crate::cli) struct Group(Option<Pid>);

impl Group {
    /// That which this process leads.
    pub(in crate::cli) fn of(leader: &Child) -> Self {
        Self(leader.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)))
    }

    /// Its number may soon be another group's.
    pub(in crate::cli) fn has_ended(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, Signal::TERM);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{BufRead, BufReader};

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
    fn a_long_line_is_shown_as_far_as_it_is_read() {
        let lines = ["cargo build".to_owned(), "x".repeat(100), "ä".repeat(101)].map(|line| shortened(&line));
        assert_eq!(lines, ["cargo build".to_owned(), "x".repeat(100), format!("{} …", "ä".repeat(100))]);
    }

    #[tokio::test]
    async fn lines_run_in_the_projects_folder_until_one_fails() {
        let folder = tempfile::tempdir().unwrap();
        let lines = ["echo 1 >one", "cat nothing-there 2>/dev/null", "echo 2 >two"].map(str::to_owned);
        let error = run(&lines, folder.path()).await.unwrap_err().to_string();
        assert!(error.contains("`cat …` ended with exit status: 1"), "{error}");
        assert!(folder.path().join("one").exists() && !folder.path().join("two").exists());
    }

    #[tokio::test]
    async fn a_line_that_is_given_up_ends_with_all_that_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let (said, begun) = tokio::sync::oneshot::channel();
        let reader = tokio::task::spawn_blocking(move || {
            let (mut from, mut first) = (BufReader::new(File::open(&fifo).unwrap()), String::new());
            from.read_line(&mut first).unwrap();
            said.send(first).unwrap();
            // Ends once no process has it open for writing.
            std::io::copy(&mut from, &mut std::io::sink()).unwrap()
        });
        let lines = ["(echo begun; exec cat /dev/zero) >fifo & wait".to_owned()];
        tokio::select! {
            ended = run(&lines, folder.path()) => panic!("{ended:?}"),
            first = begun => assert_eq!(first.unwrap(), "begun\n"),
        }
        reader.await.unwrap();
    }
}

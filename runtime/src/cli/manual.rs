//! What is generated from the tree of commands: completions for shells, and man pages.

use std::path::PathBuf;

use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;

use super::command::Cli;
use super::exit::Exit;
use super::screen;

/// Write the completions for a shell to standard output
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gristmill completions bash > /usr/share/bash-completion/completions/gristmill
  gristmill completions zsh > ~/.zfunc/_gristmill
  gristmill completions fish > ~/.config/fish/completions/gristmill.fish")]
pub(super) struct CompletionsArgs {
    #[arg(value_enum)]
    shell: Shell,
}

/// Write a man page for each command into a folder
#[derive(Debug, clap::Args)]
pub(super) struct ManArgs {
    folder: PathBuf,
}

pub(super) fn completions(args: &CompletionsArgs) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "gristmill", &mut script);
    screen::result(&script)?;
    Ok(Exit::Done)
}

pub(super) fn man(args: &ManArgs) -> anyhow::Result<Exit> {
    let folder = &args.folder;
    let failed = || format!("failed to write man pages into {}", folder.display());
    std::fs::create_dir_all(folder).with_context(failed)?;
    clap_mangen::generate_to(Cli::command(), folder).with_context(failed)?;
    Ok(Exit::Done)
}

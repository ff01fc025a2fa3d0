//! What is generated from the tree of commands: completions for shells, and man pages.

use std::path::PathBuf;

use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;

use super::command::Cli;
use super::exit::Exit;
use super::{complete, screen};

/// The first lines of the function that completes: what `gristmill complete` knows comes before the grammar.
const BASH: &str = r#"
    COMPREPLY=($("$1" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    if [[ ${#COMPREPLY[@]} -gt 0 ]]; then return 0; fi"#;
const ZSH: &str = r#"
    local -a found=(${(f)"$($words[1] complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( $#found )); then compadd -a found; return; fi"#;
/// Rules that hold besides those of the grammar; one more for each option that takes such a value.
const FISH: &str = r#"
function __gristmill_found
    set -l words (commandline -opc)
    set -g __gristmill_values ($words[1] complete -- $words[2..] (commandline -ct) 2>/dev/null)
    test -n "$__gristmill_values[1]"
end
complete -c gristmill -n __gristmill_found -f -a '$__gristmill_values'
"#;

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
    let mut grammar = Cli::command();
    clap_complete::generate(args.shell, &mut grammar, "gristmill", &mut script);
    let script = with_values(args.shell, String::from_utf8(script)?, &grammar);
    screen::result(script.as_bytes())?;
    Ok(Exit::Done)
}

/// The script, which also asks for topics, ids and tenants where the shell has a function for that.
fn with_values(shell: Shell, script: String, grammar: &clap::Command) -> String {
    let begin = "_gristmill() {";
    match shell {
        Shell::Bash => script.replacen(begin, &format!("{begin}{BASH}"), 1),
        Shell::Zsh => script.replacen(begin, &format!("{begin}{ZSH}"), 1),
        Shell::Fish => {
            let rule =
                |name| format!("complete -c gristmill -n __gristmill_found -x -l {name} -a '$__gristmill_values'\n");
            let options = complete::options(grammar);
            script + FISH + &options.into_iter().map(rule).collect::<String>()
        }
        _ => script,
    }
}

pub(super) fn man(args: &ManArgs) -> anyhow::Result<Exit> {
    let folder = &args.folder;
    let failed = || format!("failed to write man pages into {}", folder.display());
    std::fs::create_dir_all(folder).with_context(failed)?;
    clap_mangen::generate_to(Cli::command(), folder).with_context(failed)?;
    Ok(Exit::Done)
}

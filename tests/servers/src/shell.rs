//! Commands that a shell prepares.

use std::process::{Command, Stdio};

/// The command behind `preparation` of a shell, which may name it as `"$@"`. It ends with 127 where there is no such program.
pub fn after(preparation: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-ec", &format!("{preparation}; exec \"$@\""), "sh"]);
    shell.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell
}

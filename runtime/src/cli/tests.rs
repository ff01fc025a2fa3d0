//! Whether the commands of the documentation and of the help are commands.

use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{Command, CommandFactory, Parser};

use super::command::Cli;

/// The words of the commands in a text of a shell; a variable is `x`.
fn commands(text: &str) -> Vec<Vec<String>> {
    let (mut all, mut words, mut word) = (Vec::new(), Vec::new(), None::<String>);
    let (mut quote, mut chars) = (None, text.chars().peekable());
    while let Some(c) = chars.next() {
        let is_quoted = quote.is_some();
        match c {
            _ if quote == Some(c) => quote = None,
            '\'' | '"' if !is_quoted => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            '$' if quote != Some('\'') && chars.peek().is_some_and(|c| c.is_alphabetic() || *c == '{') => {
                while chars.next_if(|c| c.is_alphanumeric() || "_{}".contains(*c)).is_some() {}
                word.get_or_insert_default().push('x');
            }
            '\\' if !is_quoted && chars.peek() == Some(&'\n') => _ = chars.next(),
            '#' if !is_quoted && word.is_none() => while chars.next_if(|c| *c != '\n').is_some() {},
            '|' | '>' | '<' | '&' | ';' | '(' | ')' | '\n' if !is_quoted => {
                words.extend(word.take());
                all.push(std::mem::take(&mut words));
            }
            c if c.is_whitespace() && !is_quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    all.push(words);
    let begins = |words: &[String]| words.iter().position(|word| word == "gristmill");
    all.into_iter().filter_map(|words| begins(&words).map(|begin| words[begin..].to_vec())).collect()
}

fn pages(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let mut pages: Vec<_> = files.into_iter().filter(|path| path.extension().is_some_and(|ext| ext == "md")).collect();
    pages.extend(folders.iter().flat_map(|folder| self::pages(folder)));
    pages
}

/// The blocks of a page that a shell reads, and the rest of it.
fn blocks(page: &str) -> (String, String) {
    let (mut shell, mut prose, mut language) = (String::new(), String::new(), None);
    for line in page.lines() {
        let trimmed = line.trim_start();
        match (trimmed.strip_prefix("```"), language) {
            (Some(name), None) => language = Some(name),
            (Some(_), Some(_)) => language = None,
            (None, Some("console")) => {
                // What begins with no `$` is output, but for the rest of a command.
                if let Some(command) = trimmed.strip_prefix("$ ").or(shell.ends_with("\\\n").then_some(line)) {
                    shell.push_str(&format!("{command}\n"));
                }
            }
            (None, Some("sh" | "bash" | "shell")) => shell.push_str(&format!("{line}\n")),
            (None, Some(_)) => {}
            (None, None) => prose.push_str(&format!("{line}\n")),
        }
    }
    (shell, prose)
}

fn problem(words: &[String]) -> Option<(ErrorKind, String)> {
    let error = Cli::try_parse_from(words).err()?;
    let helps =
        [ErrorKind::DisplayHelp, ErrorKind::DisplayVersion, ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand];
    (!helps.contains(&error.kind())).then(|| (error.kind(), format!("{}: {error}", words.join(" "))))
}

fn is_cut(words: &[String]) -> bool {
    words.iter().any(|word| word.contains(['…', '[', '<']) || ["...", "COMMAND"].contains(&word.as_str()))
}

#[test]
fn every_command_of_the_documentation_is_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for path in pages(&root.join("docs")).into_iter().chain([root.join("README.md")]) {
        let (shell, prose) = blocks(&std::fs::read_to_string(&path).unwrap());
        let whole = commands(&shell).into_iter().filter(|words| !is_cut(words));
        let mut problems: Vec<_> = whole.inspect(|_| seen += 1).filter_map(|words| problem(&words)).collect();
        // In a sentence a command stands for others: it may lack what they have, and has names in place of values.
        let spans =
            prose.split('`').skip(1).step_by(2).filter(|span| span.starts_with("gristmill ")).flat_map(commands);
        let unknown = [ErrorKind::UnknownArgument, ErrorKind::InvalidSubcommand];
        let spans = spans.filter(|words| !is_cut(words)).inspect(|_| seen += 1).filter_map(|words| problem(&words));
        problems.extend(spans.filter(|(kind, _)| unknown.contains(kind)));
        wrong.extend(problems.into_iter().map(|(_, problem)| format!("{}: {problem}", path.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 150, "only {seen} were found");
}

#[test]
fn every_example_of_the_help_is_a_command() {
    fn examples(command: &Command) -> Vec<String> {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let own = help.lines().map(str::trim).filter(|line| line.contains("gristmill ")).map(str::to_owned);
        own.chain(command.get_subcommands().flat_map(examples)).collect()
    }
    let examples = examples(&Cli::command());
    let wrong: Vec<_> = examples.iter().flat_map(|line| commands(line)).filter_map(|words| problem(&words)).collect();
    assert!(wrong.is_empty() && examples.len() > 60, "{} examples: {wrong:?}", examples.len());
}

#[test]
fn commands_are_found_in_what_a_shell_reads() {
    let text = "batch=$(gristmill push a --data '{\"x\": 1}') # gristmill no\necho 1 | gristmill push b \\\n  --after $batch,y > out && gristmill stats";
    let found: Vec<_> = commands(text).iter().map(|words| words.join(" ")).collect();
    assert_eq!(found, ["gristmill push a --data {\"x\": 1}", "gristmill push b --after x,y", "gristmill stats"]);
}

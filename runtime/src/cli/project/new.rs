//! `gristmill new`: a folder in which to write a handler.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::json;

use super::super::exit::{Exit, Usage};
use super::super::global::Global;
use super::super::screen;
use super::language::Language;
use super::template;

/// Write a project for a new handler, ready to be built
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The project is a small working handler with tests of its own, a README, and the
contract between handlers and the runner. It is built with its language's own
tools: `gristmill build` calls them and says if one is missing.

Examples:
  gristmill new thumbnail --lang rust
  gristmill new hello --lang js --minimal
  gristmill new thumbnail --lang python --path services/thumbnail")]
pub(in crate::cli) struct Args {
    /// The handler's name, and so its topic's: lower-case letters, digits and hyphens
    #[arg(value_parser = project_name)]
    name: String,
    /// The language to write it in
    #[arg(long, short, value_enum)]
    lang: Language,
    /// A handler of some lines with one test, to begin with
    #[arg(long)]
    minimal: bool,
    /// The folder to make [default: the name]
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
}

/// A name that every language's packages also allow.
fn project_name(text: &str) -> Result<String, String> {
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let bounded = (1..=64).contains(&text.len()) && text.starts_with(|c: char| c.is_ascii_lowercase());
    if bounded && text.chars().all(good) && !text.ends_with('-') {
        Ok(text.to_owned())
    } else {
        let near = near_name(text).map(|near| format!("; `{near}` is one")).unwrap_or_default();
        let rule = "a name begins with a lower-case letter and goes on with up to 63 of them, digits and hyphens";
        Err(format!("{rule}{near}"))
    }
}

/// The nearest text that is a name: `my-topic` for `My Topic`.
fn near_name(text: &str) -> Option<String> {
    let hyphens = text.replace(|c: char| !c.is_ascii_alphanumeric(), "-").to_ascii_lowercase();
    let words: Vec<_> = hyphens.split('-').filter(|word| !word.is_empty()).collect();
    let joined = words.join("-");
    let begins = joined.trim_start_matches(|c: char| !c.is_ascii_lowercase());
    let near = begins.get(..begins.len().min(64)).unwrap_or_default().trim_end_matches('-');
    (!near.is_empty()).then(|| near.to_owned())
}

pub(in crate::cli) fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    let Args { name, lang, minimal, path } = args;
    let folder = path.unwrap_or_else(|| PathBuf::from(&name));
    check_free(&folder)?;
    let files = if minimal { template::minimal_files(lang, &name)? } else { template::files(lang, &name)? };
    for (path, text) in &files {
        write(&folder.join(path), text).with_context(|| format!("failed to write {path} in {}", folder.display()))?;
    }
    if global.json {
        let files: Vec<_> = files.iter().map(|(path, _)| path).collect();
        screen::document(&json!({ "handler": name, "path": folder.to_string_lossy(), "files": files }))?;
    } else {
        let folder = folder.display();
        let dev = if lang == Language::Python { "gristmill dev --native" } else { "gristmill dev" };
        let data = if minimal { r#"{"name": "Ada"}"# } else { r#"{"email": "ada@example.org", "name": "Ada"}"# };
        screen::note(&format!(
            "{folder}/ has a handler in {lang}. What next:\n\n  cd {folder}\n  gristmill build --test\n  {dev}\n\n\
             and in another terminal, in the same folder:\n\n  \
             gristmill push {name} --data '{data}' --wait"
        ));
    }
    Ok(Exit::Done)
}

/// Nothing of the user's is ever overwritten.
fn check_free(folder: &Path) -> anyhow::Result<()> {
    let is_empty = match std::fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => bail!("failed to look at {}: {error}", folder.display()),
    };
    if is_empty {
        return Ok(());
    }
    Err(Usage(format!("{} is there and not empty: name another with --path", folder.display())).into())
}

pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, text)?;
    // A package's program. npm would do it, and version control show that as a change.
    if text.starts_with("#!") {
        std::fs::set_permissions(path, Permissions::from_mode(0o755))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_in_every_language() {
        assert!(["a", "thumbnail", "resize-image-2"].iter().all(|name| project_name(name).is_ok()));
        let bad = ["", "-a", "a-", "2a", "A", "a.b", "a_b", "../a", "größe", &"a".repeat(65)];
        assert!(bad.iter().all(|name| project_name(name).is_err()));
    }

    #[test]
    fn a_refused_name_comes_with_one_that_is_not() {
        let long = "a".repeat(80);
        let cases = [
            ("My Topic", "my-topic"),
            ("hello_world", "hello-world"),
            ("2fa", "fa"),
            ("../a--b-", "a-b"),
            (&long, &"a".repeat(64)),
        ];
        for (written, near) in cases {
            assert!(project_name(near).is_ok());
            let refused = project_name(written).unwrap_err();
            assert!(refused.ends_with(&format!("; `{near}` is one")), "{written}: {refused}");
        }
        assert!(project_name("größe").unwrap_err().contains("`gr-e`"));
        assert!(!project_name("42").unwrap_err().contains("is one"));
    }
}

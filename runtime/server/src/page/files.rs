//! The files of the page. The build script joins the scripts and compresses all; a test compares the list with the folder.

use std::fs::read_to_string;
use std::io::Result;
use std::path::Path;

use super::script::{enclosed, joined};

/// The libraries, and what the page's own scripts use of each.
const LIBRARIES: [(&str, &str); 2] = [("vendor/preact.js", "{h,render}"), ("vendor/htm.js", "htm")];

/// The page's own scripts are in the order in which they run: `html.js` first, because all others need it, `app.js` last, because it starts the
/// page.
const SCRIPTS: &str = "\
    html.js bytes.js theme.js icons.js parts.js format.js payload.js chart.js route.js words.js pages/overview.js pages/audit.js \
    pages/push.js pages/tenants.js pages/bill.js pages/workers.js change.js pages/handlers.js dialog.js flow.js states.js stream.js \
    pages/events.js state.js attempts.js api.js actions.js pages/tokens.js pages/topic.js pages/bulk.js pages/jobs.js pages/dead.js \
    pages/help.js pages/schedules.js frame.js live.js keys.js calls.js pages/job.js pages/all.js app.js";

/// What a browser gets from the folder: names and texts. All scripts are joined into one file, `app.js`.
pub(super) fn served(folder: &Path) -> Result<Vec<(&'static str, String)>> {
    let text = |name: &str| read_to_string(folder.join(name));
    let mut app = String::new();
    for (name, exported) in LIBRARIES {
        app += &enclosed(&text(name)?, exported);
    }
    let own = SCRIPTS.split_whitespace().map(text).collect::<Result<Vec<_>>>()?;
    app += &joined(own.iter().map(String::as_str));
    Ok(vec![("index.html", text("index.html")?), ("style.css", text("style.css")?), ("app.js", app)])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    use super::*;

    fn folder() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("page")
    }

    /// The names of all files below a folder, without the papers of the libraries.
    fn names(folder: &Path, below: &str, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
            let name = format!("{below}{}", name.to_str().unwrap());
            if path.is_dir() {
                names(&path, &format!("{name}/"), found);
            } else if !name.starts_with("vendor/") || name.ends_with(".js") {
                found.insert(name);
            }
        }
    }

    /// The page's own files, with their texts.
    fn own() -> impl Iterator<Item = (&'static str, String)> {
        let names = SCRIPTS.split_whitespace().chain(["index.html", "style.css"]);
        names.map(|name| (name, read_to_string(folder().join(name)).unwrap()))
    }

    #[test]
    fn every_file_of_the_folder_is_served() {
        let mut there = BTreeSet::new();
        names(&folder(), "", &mut there);
        let libraries = LIBRARIES.into_iter().map(|(name, _)| name.to_owned());
        assert_eq!(libraries.chain(own().map(|(name, _)| name.to_owned())).collect::<BTreeSet<_>>(), there);
    }

    /// The name that a line declares, if it begins at the left.
    fn declared(line: &str) -> Option<&str> {
        let mut words = line.split([' ', '(']).filter(|word| *word != "async");
        let is_declaration = matches!(words.next(), Some("const" | "let" | "function"));
        words.next().filter(|name| is_declaration && name.chars().all(|one| one.is_alphanumeric() || one == '_'))
    }

    #[test]
    fn own_scripts_can_be_one() {
        let mut known = BTreeSet::new();
        for (file, text) in own().filter(|(name, _)| name.ends_with(".js")) {
            for line in text.lines() {
                if let Some(name) = declared(line.strip_prefix("export ").unwrap_or(line)) {
                    assert!(known.insert(name.to_owned()), "{file}: another file has a `{name}` at its top, too");
                }
                let is_import = line.starts_with("import ");
                assert!(!is_import || line.contains(" from ") && !line.contains(" as "), "{file}: {line}");
            }
        }
    }

    #[test]
    fn no_text_becomes_markup_and_nothing_comes_from_elsewhere() {
        for (file, text) in own() {
            let forbidden = [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "new Function",
                "https://",
                "//cdn",
            ];
            for word in forbidden {
                assert!(!text.contains(word), "{file}: {word}");
            }
        }
    }
}

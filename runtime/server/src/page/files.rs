//! The files of the page. A test compares the list with the folder.

use std::borrow::Cow;

use super::script::joined;

/// A file of the folder, or one that a browser gets.
#[derive(Debug)]
pub(super) struct File {
    name: &'static str,
    text: Cow<'static, str>,
}

macro_rules! files {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/page/", $name)))),*]
    };
}

/// The page's own scripts are in the order in which they run: `html.js` first, because all others need it, `app.js` last, because it starts the
/// page. Similar scripts are neighbours, which compresses best.
const FILES: [(&str, &str); 40] = files![
    "index.html" "style.css" "vendor/htm.js" "vendor/preact.js"
    "html.js" "bytes.js" "api.js" "stream.js" "format.js" "chart.js" "theme.js" "payload.js" "frame.js" "icons.js"
    "words.js" "pages/bill.js" "pages/overview.js" "pages/handlers.js" "pages/help.js" "pages/topic.js"
    "pages/push.js" "route.js" "states.js" "keys.js" "pages/events.js" "parts.js" "dialog.js" "flow.js" "actions.js"
    "state.js" "pages/tenants.js" "pages/tokens.js" "pages/dead.js" "pages/workers.js" "pages/job.js" "pages/jobs.js"
    "pages/schedules.js" "live.js" "pages/all.js"
    "app.js"
];

fn is_own_script(name: &str) -> bool {
    name.ends_with(".js") && !name.starts_with("vendor/")
}

/// What a browser gets: the own scripts are joined into one file, `app.js`.
pub(super) fn served() -> Vec<File> {
    let (own, others): (Vec<_>, Vec<_>) = FILES.into_iter().partition(|(name, _)| is_own_script(name));
    let own = File { name: "app.js", text: joined(own.into_iter().map(|(_, text)| text)).into() };
    let other = |(name, text): (&'static str, &'static str)| {
        let text =
            if name.starts_with("vendor/") { text.into() } else { unindented(text, name.ends_with(".css")).into() };
        File { name, text }
    };
    others.into_iter().map(other).chain([own]).collect()
}

impl File {
    /// `/` for the document, else below `/page/`.
    pub(super) fn path(&self) -> String {
        if self.name == "index.html" { "/".into() } else { format!("/page/{}", self.name) }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn media_type(&self) -> &'static str {
        match self.name.rsplit('.').next() {
            Some("html") => "text/html; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            _ => "text/javascript; charset=utf-8",
        }
    }
}

/// The document or the style without indentation; the style also without comments, and blanks beside punctuation.
fn unindented(text: &str, is_style: bool) -> String {
    let (mut served, mut in_comment) = (String::new(), false);
    for line in text.lines().map(str::trim_start) {
        in_comment |= line.starts_with("/*");
        if !in_comment && !line.is_empty() {
            served += &if is_style { tight(line) } else { format!("{line}\n") };
        }
        in_comment &= !line.ends_with("*/");
    }
    served
}

/// A line of a style without the blanks beside its punctuation.
fn tight(line: &str) -> String {
    let pairs =
        [(" {", "{"), ("{ ", "{"), (" }", "}"), ("} ", "}"), (", ", ","), ("; ", ";"), (": ", ":"), (";}", "}")];
    pairs.into_iter().fold(line.to_owned(), |line, (loose, tight)| line.replace(loose, tight))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// Bytes of all files together, as they are served, and compressed.
    const RAW: usize = 90_000;
    const COMPRESSED: usize = 30_000;

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

    #[test]
    fn every_file_of_the_folder_is_served() {
        let mut there = BTreeSet::new();
        names(&Path::new(env!("CARGO_MANIFEST_DIR")).join("page"), "", &mut there);
        let served: BTreeSet<String> = FILES.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(served, there);
    }

    #[test]
    fn the_page_is_small() {
        let all: String = served().iter().map(File::text).collect();
        let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut to, all.as_bytes()).unwrap();
        let compressed = to.finish().unwrap().len();
        assert!(all.len() <= RAW && compressed <= COMPRESSED, "{} bytes, {compressed} compressed", all.len());
    }

    #[test]
    fn own_scripts_can_be_one() {
        let mut known = BTreeSet::new();
        for (file, text) in FILES.into_iter().filter(|(name, _)| is_own_script(name)) {
            for line in text.lines() {
                let words = line.strip_prefix("export ").unwrap_or(line).split([' ', '(']);
                let words: Vec<_> = words.filter(|word| *word != "async").take(2).collect();
                if let ["const" | "let" | "function" | "class", name] = words[..] {
                    assert!(known.insert(name), "{file}: another file has a `{name}` at its top, too");
                }
                let is_import = line.starts_with("import ");
                assert!(!is_import || line.contains(" from ") && !line.contains(" as "), "{file}: {line}");
            }
        }
    }

    #[test]
    fn comments_and_blanks_of_a_style_are_not_served() {
        let text = "/* a\n b */\n@media (x: dark) {\n  a, b :c { d: e f; g: 1px + 2px; }\n}\n";
        assert_eq!(unindented(text, true), "@media (x:dark){a,b :c{d:e f;g:1px + 2px}}");
        assert_eq!(unindented("<p>\n  <b>\n", false), "<p>\n<b>\n");
    }

    #[test]
    fn no_text_becomes_markup_and_nothing_comes_from_elsewhere() {
        for (file, text) in FILES.into_iter().filter(|(name, _)| !name.starts_with("vendor/")) {
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

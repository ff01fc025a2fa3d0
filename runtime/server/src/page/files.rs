//! The files of the page. A test compares the list with the folder.

/// A file as a browser gets it.
#[derive(Debug)]
pub(super) struct File {
    name: &'static str,
    text: &'static str,
}

macro_rules! files {
    ($($name:literal)*) => {
        &[$(File { name: $name, text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/page/", $name)) }),*]
    };
}

pub(super) const FILES: &[File] = files![
    "index.html" "style.css" "app.js"
    "actions.js" "api.js" "bytes.js" "chart.js" "dialog.js" "format.js" "frame.js" "html.js" "icons.js" "keys.js"
    "live.js" "parts.js" "payload.js" "route.js" "state.js" "stream.js" "theme.js" "words.js"
    "pages/all.js" "pages/dead.js" "pages/events.js" "pages/handlers.js" "pages/help.js" "pages/job.js" "pages/jobs.js"
    "pages/overview.js" "pages/push.js" "pages/tenants.js" "pages/tokens.js" "pages/topic.js"
    "vendor/htm.js" "vendor/preact.js"
];

impl File {
    /// `/` for the document, else below `/page/`.
    pub(super) fn path(&self) -> String {
        if self.name == "index.html" { "/".into() } else { format!("/page/{}", self.name) }
    }

    /// What a browser needs of it: no indentation, no lines that are comments, and in styles and imports no blanks beside
    /// punctuation.
    pub(super) fn served(&self) -> String {
        if self.name.starts_with("vendor/") {
            return self.text.into();
        }
        let is_style = self.name.ends_with(".css");
        let (mut served, mut in_comment) = (String::new(), false);
        for line in self.text.lines().map(str::trim_start) {
            in_comment |= line.starts_with("/*");
            if !in_comment && !line.starts_with("//") && !line.is_empty() {
                let is_tight = is_style || line.starts_with("import ");
                served.push_str(&if is_tight { tight(line) } else { line.into() });
                served.push_str(if is_style { "" } else { "\n" });
            }
            in_comment &= !line.ends_with("*/");
        }
        served
    }

    pub(super) fn media_type(&self) -> &'static str {
        match self.name.rsplit('.').next() {
            Some("html") => "text/html; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            _ => "text/javascript; charset=utf-8",
        }
    }
}

/// A line without the blanks beside its punctuation.
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
        let served: BTreeSet<String> = FILES.iter().map(|file| file.name.to_owned()).collect();
        assert_eq!(served, there);
    }

    #[test]
    fn the_page_is_small() {
        let all: String = FILES.iter().map(File::served).collect();
        let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut to, all.as_bytes()).unwrap();
        let compressed = to.finish().unwrap().len();
        assert!(all.len() <= RAW && compressed <= COMPRESSED, "{} bytes, {compressed} compressed", all.len());
    }

    #[test]
    fn comments_and_indentation_are_not_served() {
        let file = |name, text| File { name, text };
        let text = "// a\n/** b */\nconst c = 1 // d\n/**\n * e\n */\n  f()\n";
        assert_eq!(file("a.js", text).served(), "const c = 1 // d\nf()\n");
        assert_eq!(file("vendor/a.js", text).served(), text);
        let text = "import { a, b } from './c.js'\nf({ a, b })\n";
        assert_eq!(file("a.js", text).served(), "import{a,b}from './c.js'\nf({ a, b })\n");
        let text = "@media (x: dark) {\n  a, b :c { d: e f; g: 1px + 2px; }\n}\n";
        assert_eq!(file("a.css", text).served(), "@media (x:dark){a,b :c{d:e f;g:1px + 2px}}");
    }

    #[test]
    fn no_text_becomes_markup_and_nothing_comes_from_elsewhere() {
        for file in FILES.iter().filter(|file| !file.name.starts_with("vendor/")) {
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
                assert!(!file.text.contains(word), "{}: {word}", file.name);
            }
        }
    }
}

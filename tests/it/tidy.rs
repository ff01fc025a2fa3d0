//! What the architecture says and the compiler does not: checked by reading the sources.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every file of ours with this extension, with its text; what is built or fetched is left out.
fn sources(extension: &str) -> Vec<(PathBuf, String)> {
    fn walk(folder: &Path, extension: &str, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && name != "node_modules" && !name.starts_with('.') {
                walk(&path, extension, found);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push((path.clone(), fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let mut found = Vec::new();
    walk(&root(), extension, &mut found);
    assert!(!found.is_empty(), "no .{extension} files: is this the right folder?");
    found
}

#[test]
fn key_names_exist_in_one_file() {
    for (path, text) in sources("lua") {
        assert!(!text.contains("gm:"), "{}: a script builds a key name", path.display());
    }
}

#[test]
fn every_script_says_what_goes_in_and_out() {
    for (path, text) in sources("lua") {
        let header: String = text.lines().take_while(|line| line.starts_with("--")).collect::<Vec<_>>().join("\n");
        assert!(!header.is_empty(), "{}: no header", path.display());
        for list in ["KEYS", "ARGV"] {
            let used =
                text.lines().any(|line| !line.trim_start().starts_with("--") && line.contains(&format!("{list}[")));
            assert!(!used || header.contains(list), "{}: uses {list} and its header does not say how", path.display());
        }
    }
}

#[test]
fn files_can_be_read_in_one_sitting() {
    let long: Vec<String> = sources("rs")
        .into_iter()
        // Nobody reads what is generated.
        .filter(|(path, text)| {
            !path.components().any(|part| part.as_os_str() == "bindings") && text.lines().count() > 500
        })
        .map(|(path, text)| format!("{}: {} lines", path.display(), text.lines().count()))
        .collect();
    assert!(long.is_empty(), "look for the second noun in them:\n{}", long.join("\n"));
}

/// A list that is checked after it was read may have taken many times the memory of its document.
#[test]
fn lists_of_requests_end_while_they_are_read() {
    let is_read = |path: &Path| {
        ["server/src/wire", "core/src/job", "core/src/schedule"]
            .iter()
            .any(|part| path.to_string_lossy().contains(part))
    };
    let mut unbounded = Vec::new();
    for (path, text) in sources("rs").into_iter().filter(|(path, _)| is_read(path)) {
        // What requests bring has no unknown fields; answers may have some.
        for request in text.split("#[derive(").filter(|part| {
            let until = part.find(" {\n").unwrap_or(part.len());
            part[..until].contains("Deserialize") && part[..until].contains("deny_unknown_fields")
        }) {
            let fields = request.split("\n}").next().unwrap_or_default().split(",\n");
            let is_list = |field: &str| {
                let kind = field.rsplit(": ").next().unwrap_or_default().trim_end_matches(',');
                let kind = kind.trim_start_matches("Option<");
                ["Vec<", "BTreeMap<", "BTreeSet<", "HashMap<", "HashSet<"].iter().any(|list| kind.starts_with(list))
            };
            let ends =
                |field: &str| ["at_most::", "json::Base64", "\"commas\""].iter().any(|with| field.contains(with));
            unbounded.extend(
                fields
                    .filter(|field| is_list(field) && !ends(field))
                    .map(|field| format!("{}: {field}", path.display())),
            );
        }
    }
    assert!(unbounded.is_empty(), "give them a bound of `json::at_most`:\n{}", unbounded.join("\n"));
}

#[test]
fn tests_do_not_sleep() {
    let call = concat!("thread::", "sleep(");
    for (path, text) in sources("rs") {
        let exempt = path.ends_with("puppet/src/lib.rs")
            || path.components().any(|part| part.as_os_str() == "guests")
            || path.starts_with(root().join("clients/rust/src"));
        assert!(exempt || !text.contains(call), "{}: wait for a condition with a bound", path.display());
    }
}

#[test]
fn no_test_is_ignored() {
    let ignored = concat!("#[", "ignore");
    for (path, text) in sources("rs") {
        assert!(!text.contains(ignored), "{}: fix it or delete it", path.display());
    }
}

/// Names that said something to those who had coined them. `docs` and the code say the field's terms instead; a reader needs no
/// dictionary for them.
const RETIRED: [&str; 35] = [
    "Doorkeeper",
    "Keyring",
    "Crowd",
    "Seat",
    "Turns",
    "Quota",
    "Fleet",
    "Desk",
    "Hand",
    "Lifeline",
    "Alarm",
    "Stash",
    "Shelf",
    "Warm",
    "Intake",
    "Handover",
    "Receipt",
    "Heard",
    "Hub",
    "Ear",
    "Several",
    "Member",
    "Mill",
    "Asker",
    "Deed",
    "Kept",
    "DoorSettings",
    "Door",
    "Room",
    "take_in",
    "let_go",
    "forget_moved",
    "stirring",
    "is_away",
    "lifeline",
];

/// Names of types that say nothing: a type has the name of the thing that was found, asked or answered.
const NAMELESS: [&str; 19] = [
    "Answer", "Asked", "End", "Ending", "Entry", "Found", "Held", "Kept", "Known", "Line", "Lines", "Look", "Open",
    "Part", "Parts", "Place", "Stored", "Told", "Wanted",
];

#[test]
fn types_are_named_for_what_they_are() {
    let mut found = Vec::new();
    for (path, text) in sources("rs").into_iter().filter(|(path, _)| {
        path.starts_with(root().join("runtime")) && !path.starts_with(root().join("runtime/templates"))
    }) {
        for (number, line) in text.lines().enumerate() {
            let mut words = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
            let is_type = words.any(|word| matches!(word, "struct" | "enum" | "trait" | "type"));
            let is_code = !line.trim_start().starts_with("//");
            if let Some(name) = words.next().filter(|name| is_code && is_type && NAMELESS.contains(name)) {
                found.push(format!("{}:{}: `{name}`", path.display(), number + 1));
            }
        }
    }
    assert!(found.is_empty(), "name the thing:\n{}", found.join("\n"));
}

#[test]
fn retired_names_do_not_come_back() {
    let mut found = Vec::new();
    for (path, text) in sources("rs") {
        if path.ends_with("tidy.rs") {
            continue;
        }
        let code = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
        for (number, line) in code {
            let words = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
            found.extend(
                words
                    .filter(|word| RETIRED.contains(word))
                    .map(|word| format!("{}:{}: `{word}`: the words of ARCHITECTURE.md", path.display(), number + 1)),
            );
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The anchors of a page, as GitHub makes them of its headings.
fn anchors(page: &str) -> Vec<String> {
    let mut is_code = false;
    let mut anchors = Vec::new();
    for line in page.lines() {
        is_code ^= line.trim_start().starts_with("```");
        if let Some(heading) = line.strip_prefix('#').filter(|_| !is_code) {
            let kept = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
            anchors.push(kept.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect());
        }
    }
    anchors
}

#[test]
fn links_in_the_documents_work() {
    let mut broken = Vec::new();
    for (path, text) in sources("md") {
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            if target.contains("://") {
                continue;
            }
            let file = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            let is_there = anchor.is_empty()
                || fs::read_to_string(&file).is_ok_and(|page| anchors(&page).iter().any(|known| known == anchor));
            if !file.exists() || !is_there {
                broken.push(format!("{}: {target}", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn pages_that_a_source_names_exist() {
    let mut broken = Vec::new();
    for (path, text) in ["rs", "lua", "toml", "sh", "py", "mjs"].into_iter().flat_map(sources) {
        for rest in text.split("docs/").skip(1) {
            let name = rest.split(|c: char| !c.is_ascii_alphanumeric() && !"/-.".contains(c)).next().unwrap();
            let name = name.trim_end_matches('.');
            if name.ends_with(".md") && !root().join("docs").join(name).exists() {
                broken.push(format!("{}: docs/{name}", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn paths_in_the_architecture_exist() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let is_path = |quoted: &&str| ["runtime/", "tests/", "docs/"].iter().any(|folder| quoted.starts_with(folder));
    let paths: Vec<&str> = text.split('`').skip(1).step_by(2).filter(is_path).collect();
    assert!(paths.len() > 10, "{paths:?}: are these all?");
    let broken: Vec<_> = paths.into_iter().filter(|path| !root().join(path).exists()).collect();
    assert!(broken.is_empty(), "{broken:?}");
}

//! How bad manifests are shown, and what their topics lack.

use std::path::Path;

use super::{id, parse, problems, topic_of};
use crate::{Manifest, ManifestError};
use gristmill_core::job::Name;

#[test]
fn bad_manifests_are_shown_as_in_the_snapshots() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests");
    let mut seen = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let shown = Manifest::parse(&text, Path::new(path.file_name().unwrap())).unwrap_err().to_string() + "\n";
        let snapshot = path.with_extension("txt");
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            std::fs::write(&snapshot, &shown).unwrap();
        }
        assert_eq!(shown, std::fs::read_to_string(&snapshot).unwrap_or_default(), "{}", snapshot.display());
        seen += 1;
    }
    assert!(seen >= 8, "the bad manifests are gone: {seen}");
}

#[test]
fn a_store_may_be_named_by_the_environment() {
    assert!(problems("[store]\nurl = { env = \"CARGO_PKG_NAME\" }").contains("no address of a store"));
}

#[test]
fn a_missing_handler_is_shown_where_the_topic_names_it() {
    let manifest = parse("[topics.resize-image]\n\n[topics.thumbs]\nhandler = \"resize-imge\"\n");
    let available: [Name; 2] = ["echo".parse().unwrap(), "resize-image".parse().unwrap()];
    let expected = "\
error: topic `thumbs` has no handler: there is no /etc/gristmill/handlers/resize-imge.wasm that can be used
 --> /etc/gristmill/gristmill.toml:4:11
  |
4 | handler = \"resize-imge\"
  |           ^^^^^^^^^^^^^ did you mean `resize-image`?";
    assert_eq!(manifest.missing_handler(&id("thumbs"), &available).to_string(), expected);
    assert_eq!(manifest.missing_handler(&id("resize-image"), &[]).place(), Some((1, 9)));
    assert_eq!(manifest.missing_handler(&id("unwritten"), &available).place(), None);
}

#[test]
fn a_missing_grant_is_shown_with_the_lines_to_add() {
    use gristmill_core::topic::Capability::{Clock, HandlerAdapter, Http, Random};
    let manifest = parse("[topics.report]\n");
    let expected = "\
error: topic `report` does not grant what its handler `report` imports: `clock`, `random`, `http`
 --> /etc/gristmill/gristmill.toml:1:9
  |
1 | [topics.report]
  |         ^^^^^^
  |
  = help: if it may have that, say so in /etc/gristmill/gristmill.toml:
            [topics.report]
            clock = true
            random = true
            [topics.report.http]
            allow = [\"the.host.it.asks\"]";
    assert_eq!(manifest.missing_grants(&topic_of(&manifest, "report"), &[Clock, Random, Http]).to_string(), expected);
    let called = parse("[topics.report]\nadapter = \"command\"\n");
    let problem = called.missing_grants(&topic_of(&called, "report"), &[HandlerAdapter]).to_string();
    let help = "help: say so in /etc/gristmill/gristmill.toml instead of `adapter = \"command\"`:\n";
    assert!(problem.contains(help) && problem.contains("adapter = \"handler\""), "{problem}");
    let unwritten = manifest.auto_topic(&"thumbs".parse().unwrap());
    let problem = manifest.missing_grants(&unwritten, &[Random]);
    assert_eq!(problem.place(), None);
    assert!(problem.to_string().contains("[topics.thumbs]"), "{problem}");
}

#[test]
fn colours_come_only_when_asked_for() {
    let error = Manifest::parse("x = 1", Path::new("gristmill.toml")).unwrap_err();
    assert!(!error.render(false).contains('\u{1b}'));
    assert!(error.render(true).contains('\u{1b}'));
}

#[test]
fn a_manifest_that_is_not_there_is_named() {
    let error = Manifest::load(Path::new("/no/such/gristmill.toml")).unwrap_err();
    assert!(matches!(error, ManifestError::Read { .. }));
    assert!(error.to_string().contains("/no/such/gristmill.toml"));
}

#[test]
fn only_the_first_of_many_mistakes_are_shown() {
    let text: String = (0..30).map(|n| format!("x{n} = 1\n")).collect();
    let shown = problems(&text);
    assert_eq!(shown.matches("error: ").count(), 20);
    assert!(shown.ends_with("has 30 problems; the first 20 are shown"));
}

#[test]
fn made_up_manifests_are_read_or_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests");
    let bad = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let bad = bad.filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
    let mut known: Vec<_> = bad.map(|path| std::fs::read(path).unwrap()).collect();
    known.push(std::fs::read(folder.join("../../../../gristmill.toml")).unwrap());
    let known: Vec<&[u8]> = known.iter().map(Vec::as_slice).collect();
    gristmill_fuzz::check("manifest", &known, |input| {
        let read = Manifest::parse(&String::from_utf8_lossy(input), Path::new("gristmill.toml"));
        read.map(|manifest| manifest.topics.len())
            .map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())
    });
}

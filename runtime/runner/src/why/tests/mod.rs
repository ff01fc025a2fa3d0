//! What `why` reports of topics whose files are refused, or make no topic.

use super::{Runners, Served, Serving, idle};
use crate::handlers::{Available, HandlerRegistry};
use gristmill_config::Manifest;
use gristmill_core::topic::Capability;
use gristmill_store::TopicCounts;

fn registry(manifest: &str, refused: &str) -> HandlerRegistry {
    let manifest = Manifest::parse(manifest, "gristmill.toml".as_ref()).unwrap();
    let refused = [(refused.parse().unwrap(), "it is a core module".to_owned())].into();
    HandlerRegistry::new(&manifest, &Available { refused, ..Available::default() }, &HandlerRegistry::default())
}

fn says(registry: &HandlerRegistry, topic: &str) -> String {
    let topic = topic.parse().unwrap();
    let served = Served::of(Some(registry), &topic);
    idle(&TopicCounts::none(topic), 0, &served, Runners { alive: 1, others: 0 }).unwrap().detail
}

#[test]
fn a_refused_file_makes_its_topic_and_says_why_it_does_no_jobs() {
    let bad = registry("", "bad");
    assert!(bad.known_topics().is_known(&"bad".parse().unwrap()));
    assert_eq!(says(&bad, "bad"), "bad.wasm was refused: it is a core module");
    let none = "neither the manifest nor a component makes this a topic: ";
    let file = "put other.wasm into the handlers folder, or name its `handler` in [topics.other]";
    assert_eq!(says(&bad, "other"), format!("{none}{file}"));
    let section = "name its `handler` in [tenants.acme.topics.other]";
    assert_eq!(says(&bad, "acme/other"), format!("{none}{section}"));
    let off = registry("[handlers]\nauto-topics = false", "bad");
    assert!(off.get(&"bad".parse().unwrap()).is_none());
}

#[test]
fn a_file_that_a_section_names_is_said_to_make_no_topic() {
    let named = registry("[topics.fast]\nhandler = \"echo\"", "other");
    let words = "the section of the topic `fast` names echo.wasm, so that the file makes no topic `echo`: push to `fast`, or add a section";
    assert_eq!(says(&named, "echo"), words);
    assert!(!says(&named, "acme/echo").contains("fast"), "files make topics in the default tenant only");
    let warning = named.known_topics().unknown(&"echo".parse().unwrap()).unwrap().to_string();
    assert_eq!(warning, format!("there is no topic `echo`: {words}"));
}

#[test]
fn what_a_topic_lacks_is_said_with_the_lines_that_grant_it() {
    let says = |lacking: &[Capability]| {
        let topic = "plain".parse().unwrap();
        let serving = Serving::LacksGrants { handler: "plain".parse().unwrap(), lacking: lacking.to_vec() };
        let served = Served { serving, ..Served::of(None, &topic) };
        idle(&TopicCounts::none(topic), 0, &served, Runners { alive: 1, others: 0 }).unwrap().detail
    };
    let adapter = "the topic cannot call `plain`: write `adapter = \"command\"` in [topics.plain]";
    assert_eq!(says(&[Capability::CommandAdapter]), adapter);
    let clock = "`plain` needs what the topic does not grant: `clock`; if it may have that, write `clock = true` in [topics.plain]";
    assert_eq!(says(&[Capability::Clock]), clock);
}

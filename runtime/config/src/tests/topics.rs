//! What the sections of topics and tenants come to.

use std::time::Duration;

use super::{id, parse, topic};
use gristmill_core::http_grant::HttpGrant;
use gristmill_core::topic::{Adapter, Backoff, BackoffKind, CodeMeaning, Limits, RecordPolicy, Topic};

#[test]
fn a_program_has_arguments_and_exit_codes() {
    let read = topic("[topics.a]\nadapter = \"command\"\nargs = [\"-v\"]\n[topics.a.exit-codes]\n3 = \"dead\"\n");
    let Adapter::Command(program) = read.adapter else { panic!("{read:?}") };
    assert_eq!(program.args, ["-v"]);
    assert_eq!(program.exit_codes, [(3, CodeMeaning::Dead)].into());
    assert_eq!(topic("[topics.a]").adapter, Adapter::Handler);
}

#[test]
fn every_key_of_a_topic_is_read() {
    let text = r#"
        [topics.a]
        handler = "echo"
        concurrency = 7
        reuse = 50
        fuel = "500M"
        memory = "32MiB"
        timeout = "5s"
        attempts = 9
        backoff = { kind = "exponential", base = "2s", max = "1h", jitter = 0 }
        payload-limit = 1024
        output-limit = "2KiB"
        log-limit = "3KiB"
        host-calls = "10k"
        follow-ups = 0
        checkpoint-limit = "4KiB"
        state-limit = "5KiB"
        state-ttl = "9d"
        result-retention = "7d"
        ended-retention = "2m"
        ttl = "1h"
        dead-limit = "2k"
        dead-retention = "1d"
        raw-producers = true
        server-log = false
        park = false
        pause-after-traps = 5
        record = "sample 0.5%"
        partitions = 1
        enqueue = ["a"]
        clock = true
        random = true
        state = true
        config = { region = "eu" }
        env = { TZ = "Europe/Paris", PACKAGE = { env = "CARGO_PKG_NAME" } }
        secrets = { package = { env = "CARGO_PKG_NAME" } }
        [topics.a.http]
        allow = ["hooks.example.com", "http://*.example.org:8080"]
        networks = ["10.1.2.0/24", "::1"]
        timeout = "3s"
        request-limit = "5KiB"
        response-limit = "6KiB"
        requests = 8
        idempotency = true
    "#;
    let topic = topic(text);
    let expected = Limits {
        fuel: 500_000_000,
        memory_bytes: 32 << 20,
        timeout: Duration::from_secs(5),
        payload_bytes: 1024,
        output_bytes: 2048,
        log_bytes: 3072,
        host_calls: 10_000,
        follow_ups: 0,
        checkpoint_bytes: 4096,
        state_bytes: 5120,
    };
    assert_eq!(topic.limits, expected);
    assert_eq!((topic.handler.as_str(), topic.concurrency, topic.retry.attempts), ("echo", 7, 9));
    assert_eq!((topic.reuse, topic.state_ttl), (50, Duration::from_secs(9 * 86_400)));
    let (base, max) = (Duration::from_secs(2), Duration::from_secs(3600));
    assert_eq!(topic.retry.backoff, Backoff { kind: BackoffKind::Exponential, base, max, jitter: 0 });
    assert_eq!((topic.dead.keep, topic.dead.retention, topic.raw_producers), (2000, Duration::from_secs(86_400), true));
    assert_eq!((topic.server_log, topic.park, topic.pause_after_traps), (false, false, 5));
    assert_eq!(topic.record, RecordPolicy::Sample(50));
    assert_eq!(topic.ended_retention, Duration::from_secs(120));
    assert_eq!((topic.result_retention, topic.ttl), (Duration::from_secs(604_800), Some(Duration::from_secs(3600))));
    assert_eq!(topic.grants.enqueue, Some(vec!["a".parse().unwrap()]));
    assert_eq!(topic.grants.config["region"], "eu");
    assert_eq!(topic.grants.secrets["package"], env!("CARGO_PKG_NAME").as_bytes());
    assert!(topic.grants.switches.iter().copied().eq(gristmill_core::topic::Capability::switches()));
    assert_eq!(
        (topic.grants.env["TZ"].as_str(), topic.grants.env["PACKAGE"].as_str()),
        ("Europe/Paris", env!("CARGO_PKG_NAME"))
    );
    let http = HttpGrant {
        allow: vec!["hooks.example.com".parse().unwrap(), "http://*.example.org:8080".parse().unwrap()],
        networks: vec!["10.1.2.0/24".parse().unwrap(), "::1/128".parse().unwrap()],
        timeout: Duration::from_secs(3),
        request_bytes: 5 << 10,
        response_bytes: 6 << 10,
        requests: 8,
        idempotency: true,
    };
    assert_eq!(topic.grants.http.as_deref(), Some(&http));
}

#[test]
fn requests_are_granted_by_name_and_have_usual_limits() {
    assert_eq!(topic("[topics.a]").grants.http, None);
    let usual = HttpGrant::of(vec!["*".parse().unwrap()]);
    assert_eq!(topic("[topics.a.http]\nallow = [\"*\"]").grants.http.as_deref(), Some(&usual));
}

#[test]
fn what_lies_within_a_tenants_bounds_is_granted() {
    let manifest = parse(
        r#"
        [tenants.acme.bounds]
        http = ["*.acme.com", "acme.com:*"]
        networks = ["10.0.0.0/8"]
        secrets = false
        [tenants.acme.defaults]
        timeout = "1s"
        [tenants.acme.topics.a]
        config = { colour = "green" }
        secrets = {}
        [tenants.acme.topics.a.http]
        allow = ["hooks.acme.com", "*.eu.acme.com", "acme.com:8443"]
        networks = ["10.1.0.0/16"]
        [tenants.free.topics.b.http]
        allow = ["*"]
        networks = ["127.0.0.1"]
        [tenants.open.bounds]
        networks = ["127.0.0.1"]
        [tenants.open.topics.c.http]
        allow = ["*"]
        networks = ["127.0.0.1"]
        "#,
    );
    assert_eq!(manifest.topics.values().filter(|topic| topic.grants.http.is_some()).count(), 3);
}

#[test]
fn a_layer_changes_what_it_names_and_nothing_else() {
    let text = r#"
        [defaults]
        timeout = "1s"
        attempts = 2
        ttl = "1h"
        backoff = { jitter = 1 }
        [topics.a]
        attempts = 3
        backoff = { base = "7s" }
        [tenants.acme.defaults]
        timeout = "2s"
        [tenants.acme.topics.b]
        ttl = "forever"
        [tenants.acme.topics.c]
        timeout = "3s"
        backoff = "9s"
    "#;
    let manifest = parse(text);
    let seen = |name| {
        let topic: &Topic = &manifest.topics[&id(name)];
        (topic.limits.timeout.as_secs(), topic.retry.attempts, topic.ttl.is_some(), topic.retry.backoff)
    };
    let built_in = Backoff::default();
    assert_eq!(seen("a"), (1, 3, true, Backoff { base: Duration::from_secs(7), jitter: 1, ..built_in }));
    assert_eq!(seen("acme/b"), (2, 2, false, Backoff { jitter: 1, ..built_in }));
    let nine = Duration::from_secs(9);
    assert_eq!(seen("acme/c"), (3, 2, true, Backoff { kind: BackoffKind::Fixed, base: nine, max: nine, jitter: 0 }));

    let auto = manifest.auto_topic(&"echo".parse().unwrap());
    assert_eq!((auto.id, auto.handler.as_str()), (id("echo"), "echo"));
    assert_eq!((auto.limits.timeout.as_secs(), auto.retry.attempts), (1, 2));
}

#[test]
fn a_topics_handler_is_its_namesake_unless_it_names_another() {
    assert_eq!(topic("[topics.a]").handler.as_str(), "a");
}

#[test]
fn a_topic_is_external_only_if_it_says_so() {
    let manifest = parse("[topics.a]\nhandler = \"external\"\n[topics.external]\n[topics.b]\nhandler = \"a\"\n");
    let external = |topic: &str| manifest.topics[&id(topic)].external;
    assert_eq!([external("a"), external("external"), external("b")], [true, false, false]);
    // What a component of that name could do is not among them.
    let of: Vec<_> = manifest.topics_of(&"external".parse().unwrap()).into_iter().map(|topic| topic.id).collect();
    assert_eq!(of, [id("external")]);
}

#[test]
fn a_component_that_a_section_names_makes_no_topic() {
    let text = "[topics.small]\nhandler = \"echo\"\n[tenants.acme.topics.secret]\n[tenants.acme.topics.print]\n\
                handler = \"external\"";
    let manifest = parse(text);
    let makes = |name: &str| manifest.makes_topic(&name.parse().unwrap());
    assert!(!makes("echo") && makes("print") && !makes("secret"));
    let topics = manifest.topics_of(&"secret".parse().unwrap());
    assert_eq!(topics.iter().map(|topic| topic.id.to_string()).collect::<Vec<_>>(), ["acme/secret"]);
}

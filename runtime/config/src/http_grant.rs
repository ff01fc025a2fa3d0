//! `[topics.NAME.http]`: the hosts that a topic's handler may send requests to.

use std::sync::Arc;

use super::diagnostic::Span;
use super::ranges;
use super::read::Section;
use gristmill_core::http_grant::{BadPattern, HostPattern, HttpGrant, IpNet, parse_network};

/// A grant, and where its parts stand, for the errors of [`super::bounds`].
#[derive(Debug)]
pub(super) struct Written {
    pub(super) grant: Arc<HttpGrant>,
    pub(super) allow: Vec<(HostPattern, Span)>,
    pub(super) networks: Vec<(IpNet, Span)>,
}

/// None: the topic has no section `http`, and may send nothing.
pub(super) fn http(topic: &mut Section<'_>) -> Option<Written> {
    let place = topic.value("http")?.span();
    let mut section = topic.section("http")?;
    let problems = section.problems();
    let allow = patterns(&mut section, "allow").unwrap_or_default();
    if section.value("allow").is_none_or(|value| value.get_ref().as_array().is_some_and(|hosts| hosts.is_empty())) {
        let title = "`http` grants no host";
        let help = "name them, as in allow = [\"hooks.example.com\", \"*.example.org\"], or leave the section out";
        problems.report(place, title, help);
    }
    let networks = networks(&mut section, "networks").unwrap_or_default();
    let mut grant = HttpGrant::of(allow.iter().map(|(pattern, _)| pattern.clone()).collect());
    grant.networks = networks.iter().map(|(network, _)| *network).collect();
    section.quantity(&ranges::HTTP_TIMEOUT, &mut grant.timeout);
    section.quantity(&ranges::REQUEST_LIMIT, &mut grant.request_bytes);
    section.quantity(&ranges::RESPONSE_LIMIT, &mut grant.response_bytes);
    section.quantity(&ranges::REQUESTS, &mut grant.requests);
    section.boolean("idempotency", &mut grant.idempotency);
    section.finish();
    Some(Written { grant: Arc::new(grant), allow, networks })
}

/// Patterns of hosts, each with its place; none if the key is absent.
pub(super) fn patterns(section: &mut Section<'_>, key: &'static str) -> Option<Vec<(HostPattern, Span)>> {
    let must = "an array of hosts such as [\"hooks.example.com\", \"*.example.org\"]";
    section
        .list(key, must, "is no pattern of hosts", |text| text.parse().map_err(|error: BadPattern| error.to_string()))
}

/// Networks, each with its place; none if the key is absent.
pub(super) fn networks(section: &mut Section<'_>, key: &'static str) -> Option<Vec<(IpNet, Span)>> {
    let must = "an array of networks such as [\"10.1.2.0/24\", \"127.0.0.1\"]";
    section.list(key, must, "is no network", parse_network)
}

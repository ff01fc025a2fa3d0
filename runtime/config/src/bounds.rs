//! `[tenants.NAME.bounds]`: the most that any topic of the tenant may be granted. A topic that is granted more is a
//! mistake at the place where it is: nothing is cut down in silence.

use std::collections::BTreeSet;

use super::diagnostic::Span;
use super::http_grant::{self, Written};
use super::read::Section;
use gristmill_core::http_grant::{HostPattern, IpNet};
use gristmill_core::topic::Capability;

/// Grants that a bound allows or refuses as a whole, besides the capabilities that are granted or not. The key is the same
/// in a topic and in the bounds.
const WHOLE: [&str; 3] = ["env", "secrets", "config"];

/// What a tenant's topics are held to.
#[derive(Debug)]
pub(super) struct Bounds {
    /// As it is written.
    name: String,
    /// None: no bound.
    http: Option<Vec<HostPattern>>,
    networks: Vec<IpNet>,
    refused: Vec<&'static str>,
    /// Defaults grant to many topics: what is wrong there is reported once.
    seen: BTreeSet<usize>,
}

/// None: the tenant has no bounds.
pub(super) fn bounds(tenant: &mut Section<'_>) -> Option<Bounds> {
    let name = tenant.inner_name("bounds");
    let mut section = tenant.section("bounds")?;
    let values = |found: Vec<(HostPattern, Span)>| found.into_iter().map(|(pattern, _)| pattern).collect();
    let http = http_grant::patterns(&mut section, "http").map(values);
    let networks = http_grant::networks(&mut section, "networks").unwrap_or_default();
    let networks = networks.into_iter().map(|(network, _)| network).collect();
    let refused =
        Capability::switches().map(Capability::name).chain(WHOLE).filter(|key| !switch(&mut section, key)).collect();
    section.finish();
    Some(Bounds { name, http, networks, refused, seen: BTreeSet::new() })
}

fn switch(section: &mut Section<'_>, key: &'static str) -> bool {
    let mut allowed = true;
    section.boolean(key, &mut allowed);
    allowed
}

impl Bounds {
    /// Reports what the topic is granted beyond the bounds. `layers` are the sections that speak for it, its own first:
    /// the first to name a key decides.
    pub(super) fn check(&mut self, layers: &[&Section<'_>], http: Option<&Written>) {
        let Some(topic) = layers.first() else { return };
        let problems = topic.problems();
        let mut refuse = |span: Span, what: String, help: String| {
            if self.seen.insert(span.start) {
                problems.add(problems.at(span, format!("{what} is more than {} allows", self.name)).help(help));
            }
        };
        for key in &self.refused {
            if let Some((span, true)) = layers.iter().find_map(|layer| layer.grants(key)) {
                let help = format!("it says `{key} = false`: change it there, or do without");
                refuse(span, format!("`{key}`"), help);
            }
        }
        let Some(http) = http else { return };
        for (pattern, span) in &http.allow {
            if let Some(bound) = self.http.as_ref().filter(|bound| !bound.iter().any(|bound| bound.covers(pattern))) {
                refuse(span.clone(), format!("`{pattern}`"), allowed("http", bound));
            }
        }
        for (network, span) in &http.networks {
            if !self.networks.iter().any(|bound| bound.contains(network)) {
                refuse(span.clone(), format!("the network `{network}`"), allowed("networks", &self.networks));
            }
        }
    }
}

fn allowed(key: &str, list: &[impl ToString]) -> String {
    let list: Vec<_> = list.iter().map(|item| format!("\"{}\"", item.to_string())).collect();
    format!("it allows {key} = [{}]", list.join(", "))
}

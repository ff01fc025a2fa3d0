//! What a handler gets instead of the secrets that only requests to some hosts may carry.
//!
//! A placeholder is random and lives for one attempt, or as long as its instance is used again, so no one who pushes jobs can write one
//! into a body. It is no secret itself: recordings, logs and traces may have it.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use url::Url;

use super::replace::Replacements;
use gristmill_core::http_grant::{Withheld, WithheldKind};
use gristmill_core::topic::Grants;

const MARK: &str = "gristmill-secret-";

/// Characters that stand for themselves in any part of a URL.
const UNRESERVED: &[u8] = b"-._~";
/// Further ones that do so in a path; a secret with slashes is several parts of one.
const OF_PATHS: &[u8] = b"-._~!$&'()*+,;=:@/";

/// The placeholders of one attempt; at least one.
#[derive(Debug)]
pub(crate) struct Placeholders {
    each: Vec<Placeholder>,
    answers: OnceLock<Arc<Replacements>>,
}

#[derive(Debug)]
struct Placeholder {
    text: String,
    secret: Arc<Withheld>,
}

/// A placeholder, as recordings have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptPlaceholder {
    pub(crate) is_variable: bool,
    pub(crate) name: String,
    text: String,
}

/// What takes the places of placeholders in the parts of a request to one host.
#[derive(Default)]
pub(crate) struct InRequest {
    pub(crate) path: Replacements,
    /// Also in a form.
    pub(crate) query: Replacements,
    pub(crate) json: Replacements,
    /// In header values, and in other bodies.
    pub(crate) plain: Replacements,
}

impl Placeholders {
    /// New ones; none if the topic withholds nothing.
    pub(crate) fn new(grants: &Grants) -> Option<Arc<Self>> {
        if grants.withheld.is_empty() {
            return None;
        }
        let text = || {
            let mut random = [0; 16];
            getrandom::fill(&mut random).map(|()| format!("{MARK}{}", hex::encode(random)))
        };
        let each = grants.withheld.iter().map(|secret| Ok(Placeholder { text: text()?, secret: Arc::clone(secret) }));
        match each.collect::<Result<Vec<_>, getrandom::Error>>() {
            Ok(each) => Some(Arc::new(Self { each, answers: OnceLock::new() })),
            Err(error) => {
                // The handler finds no secret.
                tracing::error!(%error, "failed to make placeholders for secrets: the system has no random numbers");
                None
            }
        }
    }

    /// Those of a recorded attempt, without what they stand for: a replay sends nothing.
    pub(crate) fn recorded(kept: &[KeptPlaceholder]) -> Option<Arc<Self>> {
        let each = kept.iter().map(|KeptPlaceholder { is_variable, name, text }| {
            let kind = if *is_variable { WithheldKind::Variable } else { WithheldKind::Secret };
            let secret = Withheld { kind, name: name.clone(), bytes: Vec::new(), hosts: Vec::new() };
            Placeholder { text: text.clone(), secret: Arc::new(secret) }
        });
        (!kept.is_empty()).then(|| Arc::new(Self { each: each.collect(), answers: OnceLock::new() }))
    }

    /// As recordings have them.
    pub(crate) fn kept(&self) -> Vec<KeptPlaceholder> {
        let kept = |Placeholder { text, secret }: &Placeholder| KeptPlaceholder {
            is_variable: secret.kind == WithheldKind::Variable,
            name: secret.name.clone(),
            text: text.clone(),
        };
        self.each.iter().map(kept).collect()
    }

    /// Whether they stand for what these grants withhold.
    pub(crate) fn are_of(&self, grants: &Grants) -> bool {
        self.each.iter().map(|each| &each.secret).eq(&grants.withheld)
    }

    /// What `config.secret` returns for this name.
    pub(crate) fn secret(&self, name: &str) -> Option<&str> {
        let found = self.of_kind(WithheldKind::Secret).find(|each| each.secret.name == name)?;
        Some(&found.text)
    }

    /// Names and values of variables.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.of_kind(WithheldKind::Variable).map(|each| (each.secret.name.as_str(), each.text.as_str()))
    }

    fn of_kind(&self, kind: WithheldKind) -> impl Iterator<Item = &Placeholder> {
        self.each.iter().filter(move |each| each.secret.kind == kind)
    }

    /// None if no secret may go to this URL.
    pub(crate) fn in_request(&self, url: &Url) -> Option<InRequest> {
        let mut all = InRequest::default();
        for Placeholder { text, secret } in self.each.iter().filter(|each| each.secret.may_go_to(url)) {
            let (text, secret) = (text.as_bytes(), secret.bytes.as_slice());
            all.path.add(text, encoded(secret, OF_PATHS).as_bytes());
            all.query.add(text, encoded(secret, UNRESERVED).as_bytes());
            all.json.add(text, &in_json(secret));
            all.plain.add(text, secret);
        }
        (!all.plain.is_empty()).then_some(all)
    }

    /// Secrets by their placeholders, also as URLs and JSON have them.
    pub(crate) fn in_answers(&self) -> &Arc<Replacements> {
        self.answers.get_or_init(|| {
            let mut all = Replacements::default();
            for Placeholder { text, secret } in &self.each {
                let json = in_json(&secret.bytes);
                let slashes = String::from_utf8_lossy(&json).replace('/', "\\/").into_bytes();
                let in_urls = [OF_PATHS, UNRESERVED].map(|kept| encoded(&secret.bytes, kept).into_bytes());
                let forms = in_urls.into_iter().chain([secret.bytes.clone(), json, slashes]).collect::<BTreeSet<_>>();
                forms.iter().for_each(|form| all.add(form, text.as_bytes()));
            }
            Arc::new(all)
        })
    }

    /// Placeholders by what is the same in all attempts.
    pub(crate) fn by_name(&self) -> Replacements {
        let mut all = Replacements::default();
        for Placeholder { text, secret } in &self.each {
            all.add(text.as_bytes(), format!("{{{:?} {}}}", secret.kind, secret.name).as_bytes());
        }
        all
    }

    /// The name of the first secret whose placeholder is in these bytes.
    pub(crate) fn name_in(&self, bytes: &[u8]) -> Option<&str> {
        let found = self.each.iter().find(|each| memchr::memmem::find(bytes, each.text.as_bytes()).is_some())?;
        Some(&found.secret.name)
    }
}

/// As it stands in a string of JSON. What is no text can be in none.
fn in_json(bytes: &[u8]) -> Vec<u8> {
    let written = std::str::from_utf8(bytes).ok().and_then(|text| serde_json::to_vec(text).ok());
    match written.as_deref() {
        Some([b'"', inner @ .., b'"']) => inner.to_vec(),
        _ => bytes.to_vec(),
    }
}

/// Percent-encoded, but for letters, digits and these.
fn encoded(bytes: &[u8], kept: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte.is_ascii_alphanumeric() || kept.contains(byte) {
            true => text.push(char::from(*byte)),
            false => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

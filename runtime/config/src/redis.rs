//! What `[store]` says of a Redis beside its address.

use std::path::{Path, PathBuf};

use super::http::{TlsSettings, key_pair};
use super::read::Section;
use gristmill_core::job::Name;

/// How to use a Redis. Means nothing for other stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisSettings {
    /// What every key begins with, so that several installations can share a server.
    pub prefix: String,
    /// `[store.tls]`: for `rediss://`.
    pub tls: RedisTls,
}

/// `[store.tls]`: PEM files, which each new connection reads anew.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RedisTls {
    /// The certificate authorities that may have issued the server's certificate. None: those that the machine trusts.
    pub ca: Option<PathBuf>,
    /// The client's own certificate, for servers that ask for one.
    pub client: Option<TlsSettings>,
}

impl Default for RedisSettings {
    fn default() -> Self {
        Self { prefix: "gm".into(), tls: RedisTls::default() }
    }
}

/// The keys that a store has for the sake of Redis. `uses_tls`: whether its address does.
pub(super) fn settings(section: &mut Section<'_>, folder: &Path, uses_tls: bool) -> RedisSettings {
    let mut redis = RedisSettings::default();
    if let Some(prefix) = section.name("prefix") {
        redis.prefix = Name::into(prefix);
    }
    if uses_tls {
        redis.tls = tls(section, folder).unwrap_or_default();
    } else {
        section.misplaced("tls", "it is for a Redis with TLS, whose `url` begins with `rediss://`");
    }
    redis
}

/// None: there is no such section.
fn tls(section: &mut Section<'_>, folder: &Path) -> Option<RedisTls> {
    let (place, mut tls) = section.section_at("tls")?;
    let ca = tls.path("ca").map(|path| folder.join(path));
    let has_client = tls.has("certificate") || tls.has("key");
    let client = if has_client { key_pair(&mut tls, place, folder) } else { None };
    tls.finish();
    Some(RedisTls { ca, client })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{parse, problems};
    use super::*;

    #[test]
    fn a_redis_may_have_certificates_of_its_own() {
        let of = |tls: &str| parse(&format!("[store]\nurl = \"rediss://db\"\n{tls}")).store.redis.tls;
        assert_eq!(of(""), RedisTls::default());
        let ca = Some(PathBuf::from("/etc/gristmill/ca.pem"));
        assert_eq!(of("tls = { ca = \"ca.pem\" }"), RedisTls { ca: ca.clone(), client: None });
        let client = TlsSettings { certificate: "/etc/gristmill/c.pem".into(), key: "/k.pem".into() };
        assert_eq!(
            of("[store.tls]\nca = \"ca.pem\"\ncertificate = \"c.pem\"\nkey = \"/k.pem\""),
            RedisTls { ca, client: Some(client) }
        );
    }

    #[test]
    fn half_a_pair_and_certificates_without_tls_are_mistakes() {
        let missing = problems("[store]\nurl = \"rediss://db\"\n[store.tls]\nkey = \"k.pem\"");
        assert!(missing.contains("[store.tls] does not say where its `certificate` is"), "{missing}");
        for url in ["redis://db", "sqlite:jobs.db"] {
            let misplaced = problems(&format!("[store]\nurl = \"{url}\"\n[store.tls]\nca = \"ca.pem\""));
            assert!(misplaced.contains("`tls` has no place") && misplaced.contains("rediss://"), "{misplaced}");
        }
    }
}

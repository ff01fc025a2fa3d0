//! What `[store]` says of a Redis beside its address.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::http::{TlsSettings, key_pair};
use super::ranges;
use super::read::Section;
use gristmill_core::job::Name;

/// How to use a Redis. Means nothing for other stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisSettings {
    /// What every key begins with, so that several installations can share a server.
    pub prefix: String,
    /// `[store.tls]`: for `rediss://`.
    pub tls: RedisTls,
    /// What a push waits for.
    pub acknowledgement: Acknowledgement,
}

/// What must have a job before its push is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acknowledgement {
    /// Who must have it.
    pub by: AcknowledgedBy,
    /// How many replicas of the primary must, if not the primary alone.
    pub replicas: u32,
    /// How long a push waits for them.
    pub within: Duration,
}

/// Who must have a job before its push is acknowledged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AcknowledgedBy {
    /// The primary, in its memory.
    #[default]
    Primary,
    /// Also this many replicas, in their memory.
    Replicas,
    /// The log on the primary's disk, and on those of this many replicas.
    Disks,
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
        Self { prefix: "gm".into(), tls: RedisTls::default(), acknowledgement: Acknowledgement::default() }
    }
}

impl Default for Acknowledgement {
    fn default() -> Self {
        Self { by: AcknowledgedBy::default(), replicas: 0, within: Duration::from_secs(1) }
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
    redis.acknowledgement = acknowledgement(section);
    redis
}

/// The keys mean something for Redis alone, and two of them only with `acknowledged-by`.
fn acknowledgement(section: &mut Section<'_>) -> Acknowledgement {
    let mut wanted = Acknowledgement::default();
    let choices = [
        ("primary", AcknowledgedBy::Primary),
        ("replicas", AcknowledgedBy::Replicas),
        ("disks", AcknowledgedBy::Disks),
    ];
    section.choice("acknowledged-by", &choices, &mut wanted.by);
    section.quantity(&ranges::ACKNOWLEDGED_WITHIN, &mut wanted.within);
    wanted.replicas = u32::from(wanted.by == AcknowledgedBy::Replicas);
    section.quantity(&ranges::REPLICAS, &mut wanted.replicas);
    match wanted.by {
        AcknowledgedBy::Primary => {
            for key in ["replicas", "acknowledged-within"] {
                section.misplaced(key, "it needs `acknowledged-by = \"replicas\"` or `\"disks\"`");
            }
        }
        AcknowledgedBy::Replicas if wanted.replicas == 0 => {
            section.misplaced("replicas", "`acknowledged-by = \"replicas\"` needs at least one");
        }
        AcknowledgedBy::Replicas | AcknowledgedBy::Disks => {}
    }
    wanted
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
    fn a_push_may_wait_for_replicas_or_disks() {
        let of = |keys: &str| parse(&format!("[store]\nurl = \"redis://db\"\n{keys}")).store.redis.acknowledgement;
        assert_eq!(
            of(""),
            Acknowledgement { by: AcknowledgedBy::Primary, replicas: 0, within: Duration::from_secs(1) }
        );
        assert_eq!((of("acknowledged-by = \"replicas\"").replicas, of("acknowledged-by = \"disks\"").replicas), (1, 0));
        let all = of("acknowledged-by = \"disks\"\nreplicas = 2\nacknowledged-within = \"250ms\"");
        let within = Duration::from_millis(250);
        assert_eq!(all, Acknowledgement { by: AcknowledgedBy::Disks, replicas: 2, within });
        for (keys, part) in [
            ("replicas = 1", "needs `acknowledged-by"),
            ("acknowledged-by = \"replicas\"\nreplicas = 0", "at least one"),
            ("acknowledged-by = \"all\"", "acknowledged-by"),
        ] {
            let problems = problems(&format!("[store]\nurl = \"redis://db\"\n{keys}"));
            assert!(problems.contains(part), "{problems}");
        }
        let misplaced = problems("[store]\nacknowledged-by = \"disks\"");
        assert!(misplaced.contains("`acknowledged-by` has no place"), "{misplaced}");
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

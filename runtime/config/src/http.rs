//! `[http]`: where the server listens, and how.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use super::diagnostic::Span;
use super::read::Section;

/// `[http]`: the HTTP server, for commands, clients and monitoring.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpSettings {
    /// Where the server listens.
    pub listen: Listen,
    /// Whether it listens on other addresses than loopback although there are no tokens, and accepts every client there.
    pub insecure: bool,
    /// None: plain HTTP.
    pub tls: Option<TlsSettings>,
}

/// A certificate and its key, in PEM files. Those of `[http.tls]` are read again when they change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// The own certificate first, then those that vouch for it.
    pub certificate: PathBuf,
    /// The file of the private key, PEM.
    pub key: PathBuf,
}

/// Where to listen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Listen {
    /// Not set: at [`Listen::USUAL`], or at any free port if that one is taken.
    #[default]
    Usual,
    /// There and nowhere else. Port 0 is any free one.
    At(SocketAddr),
    /// Nowhere.
    Off,
}

impl Listen {
    /// Where a server listens if the manifest does not say it.
    pub const USUAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7331);

    /// Where it is to be tried first. `None`: nowhere.
    pub fn address(self) -> Option<SocketAddr> {
        match self {
            Self::Usual => Some(Self::USUAL),
            Self::At(address) => Some(address),
            Self::Off => None,
        }
    }
}

/// Paths are relative to `folder`, the manifest's.
pub(super) fn http(root: &mut Section<'_>, folder: &Path) -> HttpSettings {
    let mut http = HttpSettings::default();
    let Some(mut section) = root.section("http") else { return http };
    if let Some((address, _)) = section.address("listen", "127.0.0.1:7331") {
        http.listen = address.map_or(Listen::Off, Listen::At);
    }
    section.boolean("insecure", &mut http.insecure);
    http.tls = tls(&mut section, folder);
    section.finish();
    http
}

/// None: there is no such section, or one of the two is missing, which is reported.
fn tls(section: &mut Section<'_>, folder: &Path) -> Option<TlsSettings> {
    let (place, mut tls) = section.section_at("tls")?;
    let pair = key_pair(&mut tls, place, folder);
    tls.finish();
    pair
}

/// A certificate and its key. None if one of the two is missing, which is reported at `place`.
pub(super) fn key_pair(tls: &mut Section<'_>, place: Span, folder: &Path) -> Option<TlsSettings> {
    let [certificate, key] = ["certificate", "key"].map(|key| {
        let path = tls.path(key);
        if path.is_none() && !tls.has(key) {
            let title = format!("{} does not say where its `{key}` is", tls.title());
            let help = "it needs `certificate` and `key`, which are paths of PEM files";
            tls.problems().report(place.clone(), title, help);
        }
        path.map(|path| folder.join(path))
    });
    Some(TlsSettings { certificate: certificate?, key: key? })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{parse, problems};
    use super::*;

    #[test]
    fn the_server_may_listen_for_others() {
        let http =
            parse("[http]\nlisten = \"0.0.0.0:443\"\n[http.tls]\ncertificate = \"c.pem\"\nkey = \"/k.pem\"").http;
        assert_eq!((http.listen, http.insecure), (Listen::At("0.0.0.0:443".parse().unwrap()), false));
        let tls = TlsSettings { certificate: "/etc/gristmill/c.pem".into(), key: "/k.pem".into() };
        assert_eq!(http.tls, Some(tls));
        assert!(parse("[http]\ninsecure = true").http.insecure);
        for (missing, there) in [("key", "certificate"), ("certificate", "key")] {
            let problems = problems(&format!("[http.tls]\n{there} = \"a\""));
            assert!(
                problems.contains(&format!("does not say where its `{missing}` is")) && problems.contains("1 problem"),
                "{problems}"
            );
        }
    }
}

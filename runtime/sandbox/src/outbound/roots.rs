//! The certificate authorities that are trusted: the machine's own list, which its operator and its distribution maintain.

use std::io;
use std::sync::Arc;

use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Sessions that one topic may take up again without a whole handshake.
const SESSIONS: usize = 64;

/// Certificate authorities; read when they are first needed. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct TrustedRoots(Arc<OnceCell<Arc<RootCertStore>>>);

impl TrustedRoots {
    pub(super) fn of_machine() -> Self {
        Self(Arc::default())
    }

    #[cfg(test)]
    pub(super) fn only(roots: RootCertStore) -> Self {
        Self(Arc::new(OnceCell::new_with(Some(Arc::new(roots)))))
    }

    /// A connector with sessions of its own: what is remembered of a server is not shared between topics.
    ///
    /// # Errors
    /// The machine trusts no certificate authority.
    pub(super) async fn connector(&self) -> io::Result<TlsConnector> {
        let roots = self.0.get_or_try_init(|| async { spawn_blocking(read).await.map_err(io::Error::other)? }).await?;
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().map_err(io::Error::other)?;
        let mut config = config.with_root_certificates(Arc::clone(roots)).with_no_client_auth();
        config.resumption = Resumption::in_memory_sessions(SESSIONS);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsConnector::from(Arc::new(config)))
    }
}

fn read() -> io::Result<Arc<RootCertStore>> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
        let text = "this machine trusts no certificate authority: install its ca-certificates, or name a file with SSL_CERT_FILE";
        return Err(io::Error::other(format!("{text}{why}")));
    }
    Ok(Arc::new(roots))
}

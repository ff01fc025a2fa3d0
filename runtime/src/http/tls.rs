//! TLS for the server: a certificate and its key, read again when their files change.
//!
//! Nothing watches the files: a connection looks, if nobody has looked for a second. A certificate is of use to connections
//! alone, and where none come, none need a new one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, ensure};
use arc_swap::ArcSwap;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::server::TlsStream;

use crate::config::TlsSettings;

/// From the beginning of a connection to the end of its handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// How often the files are looked at, at most.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Speaks TLS below HTTP. 1.2 and 1.3.
pub(super) struct Tls {
    settings: TlsSettings,
    acceptor: TlsAcceptor,
    served: Arc<Served>,
    looked: Mutex<Looked>,
}

/// The certificate that is shown, with its key.
#[derive(Debug)]
struct Served(ArcSwap<CertifiedKey>);

/// When the files were looked at, and as what they were found: good or bad, they are not read twice.
#[derive(Debug)]
struct Looked {
    at: Instant,
    stamps: [Stamp; 2],
}

/// What changes with a file. None: it is not there.
type Stamp = Option<(SystemTime, u64, u64)>;

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// One of them cannot be read or is no PEM, or the key is not that of the certificate.
    pub(super) fn load(settings: TlsSettings) -> anyhow::Result<Self> {
        let stamps = stamps(&settings);
        let served = Arc::new(Served(ArcSwap::from_pointee(read(&settings)?)));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions()?;
        let mut config = config.with_no_client_auth().with_cert_resolver(served.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let looked = Mutex::new(Looked { at: Instant::now(), stamps });
        Ok(Self { settings, acceptor: TlsAcceptor::from(Arc::new(config)), served, looked })
    }

    /// The handshake.
    ///
    /// # Errors
    /// The other side does not speak TLS, wants none that we speak, or takes too long.
    pub(super) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S) -> io::Result<TlsStream<S>> {
        self.look_again().await;
        timeout(HANDSHAKE_TIME, self.acceptor.accept(stream)).await?
    }

    /// Takes the files as they are now. A pair that cannot be used is told of once, and the one before it serves on.
    async fn look_again(&self) {
        // Somebody else looks: this connection does not wait for that.
        let Ok(mut looked) = self.looked.try_lock() else { return };
        if looked.at.elapsed() < LOOK_EVERY {
            return;
        }
        looked.at = Instant::now();
        let (settings, before) = (self.settings.clone(), looked.stamps);
        let look = move || {
            let now = stamps(&settings);
            (now != before).then(|| (now, read(&settings)))
        };
        let Ok(Some((stamps, pair))) = spawn_blocking(look).await else { return };
        looked.stamps = stamps;
        let certificate = self.settings.certificate.display();
        match pair {
            Ok(pair) => {
                self.served.0.store(Arc::new(pair));
                tracing::info!(%certificate, "certificate reloaded");
            }
            Err(error) => tracing::error!(%certificate, "certificate refused, the one before it serves on: {error:#}"),
        }
    }
}

impl ResolvesServerCert for Served {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

fn read(TlsSettings { certificate, key }: &TlsSettings) -> anyhow::Result<CertifiedKey> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes(certificate)?).collect();
    let chain = chain.with_context(|| format!("{} is no PEM file of certificates", certificate.display()))?;
    ensure!(!chain.is_empty(), "{} holds no certificate", certificate.display());
    let private = PrivateKeyDer::from_pem_slice(&bytes(key)?);
    let private = private.with_context(|| format!("{} is no PEM file of a private key", key.display()))?;
    CertifiedKey::from_der(chain, private, &ring::default_provider())
        .with_context(|| format!("{} and {} do not belong together", certificate.display(), key.display()))
}

fn bytes(path: &PathBuf) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("failed to read {}", path.display()))
}

fn stamps(settings: &TlsSettings) -> [Stamp; 2] {
    [stamp(&settings.certificate), stamp(&settings.key)]
}

fn stamp(path: &Path) -> Stamp {
    use std::os::unix::fs::MetadataExt;
    let file = fs::metadata(path).ok()?;
    Some((file.modified().ok()?, file.len(), file.ino()))
}

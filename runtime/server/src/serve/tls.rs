//! TLS for the server: a certificate and its key, read again when their files change.
//!
//! Nothing watches the files: a connection looks, if none has looked for a second. A certificate is of use to connections
//! alone, and where none come, none need a new one.

use std::fs;
use std::io;
use std::path::Path;
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

use gristmill_config::{TlsSettings, read_regular, warn_if_exposed};

/// From the beginning of a connection to the end of its handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// The largest file of certificates, or of a key.
const PEM_BYTES: u64 = 1 << 20;

/// How often the files are looked at, at most.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Speaks TLS below HTTP. 1.2 and 1.3.
pub(crate) struct Tls {
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
type Stamp = Option<(SystemTime, (i64, i64), u64, u64)>;

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Whether a server could use these files.
///
/// # Errors
/// One of them cannot be read or is no PEM, or the key is not that of the certificate.
pub fn try_tls(settings: TlsSettings) -> anyhow::Result<()> {
    Tls::load(settings).map(drop)
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// One of them cannot be read or is no PEM, or the key is not that of the certificate.
    pub(crate) fn load(settings: TlsSettings) -> anyhow::Result<Self> {
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
    pub(crate) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S) -> io::Result<TlsStream<S>> {
        self.look_again().await;
        timeout(HANDSHAKE_TIME, self.acceptor.accept(stream)).await?
    }

    /// Takes the files as they are now. A pair that cannot be used is logged once, and the one before it serves on.
    async fn look_again(&self) {
        // Another connection looks: this one does not wait for that.
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
    warn_if_exposed(key);
    let private = PrivateKeyDer::from_pem_slice(&bytes(key)?);
    let private = private.with_context(|| format!("{} is no PEM file of a private key", key.display()))?;
    CertifiedKey::from_der(chain, private, &ring::default_provider())
        .with_context(|| format!("{} and {} do not belong together", certificate.display(), key.display()))
}

fn bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
    read_regular(path, PEM_BYTES).with_context(|| format!("failed to read {}", path.display()))
}

fn stamps(settings: &TlsSettings) -> [Stamp; 2] {
    [stamp(&settings.certificate), stamp(&settings.key)]
}

fn stamp(path: &Path) -> Stamp {
    use std::os::unix::fs::MetadataExt;
    let file = fs::metadata(path).ok()?;
    Some((file.modified().ok()?, (file.ctime(), file.ctime_nsec()), file.len(), file.ino()))
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use rcgen::generate_simple_self_signed;
    use tempfile::TempDir;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio_rustls::client;
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};

    use super::*;
    use crate::{HttpServer, HttpServerSettings, RemoteStore};
    use gristmill_config::LmstfySettings;
    use gristmill_store::embedded::EmbeddedStore;

    /// A folder with a certificate and a key in it.
    struct Files(TempDir);

    impl Files {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn settings(&self) -> TlsSettings {
            TlsSettings { certificate: self.0.path().join("cert.pem"), key: self.0.path().join("key.pem") }
        }

        /// Replaces the file as one should: written aside and renamed.
        fn put(&self, name: &str, text: &str) {
            let aside = self.0.path().join("aside");
            fs::write(&aside, text).unwrap();
            fs::rename(aside, self.0.path().join(name)).unwrap();
        }

        fn put_both(&self, pair: &(CertificateDer<'static>, String, String)) {
            self.put("cert.pem", &pair.1);
            self.put("key.pem", &pair.2);
        }
    }

    /// A certificate that signed itself, and it and its key as PEM.
    fn pair() -> (CertificateDer<'static>, String, String) {
        let made = generate_simple_self_signed(["mill.example".to_owned()]).unwrap();
        let pem = |label: &str, der: &[u8]| {
            let text = STANDARD.encode(der);
            let lines: Vec<_> = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
            format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
        };
        let certificate = made.cert.der().clone();
        let (text, key) = (pem("CERTIFICATE", &certificate), pem("PRIVATE KEY", &made.signing_key.serialize_der()));
        (certificate, text, key)
    }

    async fn connect(port: u16, trusted: &CertificateDer<'static>) -> io::Result<client::TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap();
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        connector.connect("mill.example".try_into().unwrap(), stream).await
    }

    fn request(path: &str) -> String {
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    }

    /// The protocol that the server chose, and what it answers.
    async fn over_tls(port: u16, trusted: &CertificateDer<'static>, path: &str) -> (Option<Vec<u8>>, String) {
        let mut stream = connect(port, trusted).await.unwrap();
        stream.write_all(request(path).as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer).await);
        let protocol = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        (protocol, String::from_utf8_lossy(&answer).into_owned())
    }

    async fn in_the_clear(port: u16, path: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(request(path).as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer).await);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// As if the last look had been long ago.
    async fn look(tls: &Tls) {
        let mut looked = tls.looked.lock().await;
        looked.at = looked.at.checked_sub(LOOK_EVERY).unwrap();
        drop(looked);
        tls.look_again().await;
    }

    fn shown(tls: &Tls) -> CertificateDer<'static> {
        tls.served.0.load().cert[0].clone()
    }

    #[tokio::test]
    async fn a_server_speaks_tls_and_commands_come_in_beside_it() {
        let (files, pair) = (Files::new(), pair());
        files.put_both(&pair);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let store = Arc::new(EmbeddedStore::in_memory().await.unwrap());
        let settings = HttpServerSettings { tls: Some(files.settings()), ..HttpServerSettings::default() };
        let server = HttpServer::start(listener, store, "here", &settings).await.unwrap();
        let port = server.address().port();

        // A silent client keeps no other client waiting.
        let _silent = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let (alpn, answer) = over_tls(port, &pair.0, "/v1").await;
        assert_eq!(alpn.as_deref(), Some(&b"http/1.1"[..]));
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let answer = in_the_clear(port, "/v1").await;
        assert!(!answer.starts_with("HTTP"), "{answer}");
        assert_ne!(server.address_for_commands(), server.address());
        assert_eq!(RemoteStore::connect(server.address_for_commands()).await.unwrap().store(), Some("here"));
        server.shutdown().await;
    }

    #[tokio::test]
    async fn lmstfys_admin_api_speaks_tls_where_the_server_does() {
        let (files, pair) = (Files::new(), pair());
        files.put_both(&pair);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let store = Arc::new(EmbeddedStore::in_memory().await.unwrap());
        let lmstfy = LmstfySettings { admin: Some(([127, 0, 0, 1], 0).into()), ..LmstfySettings::default() };
        let settings = HttpServerSettings { tls: Some(files.settings()), lmstfy, ..HttpServerSettings::default() };
        let server = HttpServer::start(listener, store, "here", &settings).await.unwrap();
        let port = server.lmstfy_admin_address().unwrap().port();
        let (_, answer) = over_tls(port, &pair.0, "/pools").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let answer = in_the_clear(port, "/pools").await;
        assert!(!answer.starts_with("HTTP"), "{answer}");
        server.shutdown().await;
    }

    #[tokio::test]
    async fn a_new_pair_is_shown_from_then_on() {
        let (files, first, second) = (Files::new(), pair(), pair());
        files.put_both(&first);
        let tls = Tls::load(files.settings()).unwrap();
        look(&tls).await;
        assert_eq!(shown(&tls), first.0);
        files.put_both(&second);
        look(&tls).await;
        assert_eq!(shown(&tls), second.0);
    }

    #[tokio::test]
    async fn a_pair_that_cannot_be_used_does_not_replace_one_that_can() {
        let (files, first, second) = (Files::new(), pair(), pair());
        files.put_both(&first);
        let tls = Tls::load(files.settings()).unwrap();
        for (name, text) in [("cert.pem", &second.1[..]), ("cert.pem", "nonsense"), ("cert.pem", ""), ("key.pem", "")] {
            files.put(name, text);
            look(&tls).await;
            assert_eq!(shown(&tls), first.0, "{name}: {text}");
        }
        fs::remove_file(files.settings().key).unwrap();
        look(&tls).await;
        assert_eq!(shown(&tls), first.0);
        files.put_both(&second);
        look(&tls).await;
        assert_eq!(shown(&tls), second.0, "once both are there");
    }

    #[tokio::test]
    async fn the_first_pair_must_be_good() {
        let (files, first, second) = (Files::new(), pair(), pair());
        let refused = |part: &str| {
            let error = format!("{:#}", Tls::load(files.settings()).unwrap_err());
            assert!(error.contains(part) && error.contains(".pem"), "{error}");
        };
        refused("failed to read");
        files.put_both(&first);
        files.put("key.pem", &second.2);
        refused("do not belong together");
        files.put("key.pem", &first.1);
        refused("no PEM file of a private key");
        files.put("cert.pem", "");
        refused("holds no certificate");
    }
}

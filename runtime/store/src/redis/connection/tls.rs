//! TLS to a Redis: which certificates to trust, and which one to show. The files are read for each connection, so that renewed ones are taken up.

use std::io;
use std::path::Path;
use std::sync::Arc;

use redis::RedisResult;
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{CertificateError, ClientConfig, Error, RootCertStore};

use super::error::misconfigured;
use gristmill_config::{RedisTls, warn_if_exposed};

/// The certificates of one address.
#[derive(Debug)]
pub(in crate::redis) struct Tls {
    files: RedisTls,
    /// The certificate authorities that the machine trusts, read when they are first needed.
    machine: OnceCell<Arc<RootCertStore>>,
}

impl Tls {
    pub(in crate::redis) fn new(files: RedisTls) -> Self {
        if let Some(client) = &files.client {
            warn_if_exposed(&client.key);
        }
        Self { files, machine: OnceCell::new() }
    }

    /// The certificates that this trusts, for people.
    fn trusted(&self) -> String {
        match &self.files.ca {
            Some(path) => path.display().to_string(),
            None => "this machine's list of certificate authorities".into(),
        }
    }

    /// The handshake with the server of this name.
    ///
    /// # Errors
    /// A file is missing or is no PEM; the server's certificate is refused, with the remedy; or the server does not speak TLS, which
    /// counts as broken off.
    pub(in crate::redis) async fn connect(&self, host: &str, stream: TcpStream) -> RedisResult<TlsStream<TcpStream>> {
        let config = self.config().await.map_err(|error| misconfigured(format!("{error:#}")))?;
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| misconfigured(format!("`{host}` is no name that a certificate can be for")))?;
        let handshake = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
        handshake.map_err(|error| match rustls_error(&error) {
            Some(Error::InvalidCertificate(problem)) => misconfigured(self.refusal(host, problem)),
            _ => error.into(),
        })
    }

    /// Why the server's certificate is refused, and what to do.
    fn refusal(&self, host: &str, problem: &CertificateError) -> String {
        match problem {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => format!(
                "the certificate of {host} was not issued by {}; set `ca` in [store.tls] to the file of the authority that issued it",
                self.trusted()
            ),
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!("{problem}; write a name that the certificate is for into `url`, or issue one for {host}")
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                format!("the certificate of {host} has expired ({problem}); renew it")
            }
            _ => format!("the certificate of {host} is refused by {}: {problem}", self.trusted()),
        }
    }

    async fn config(&self) -> anyhow::Result<ClientConfig> {
        let roots = match &self.files.ca {
            Some(_) => None,
            None => Some(Arc::clone(self.machine.get_or_try_init(machine_roots).await?)),
        };
        let files = self.files.clone();
        spawn_blocking(move || client_config(&files, roots)).await?
    }
}

/// Whether the server speaks TLS, with whatever certificate.
pub(in crate::redis) async fn speaks_tls(host: &str, stream: TcpStream) -> bool {
    let Ok(name) = ServerName::try_from(host.to_owned()) else { return false };
    let Ok(config) = client_config(&RedisTls::default(), Some(Arc::new(RootCertStore::empty()))) else { return false };
    let refused = TlsConnector::from(Arc::new(config)).connect(name, stream).await.err();
    matches!(refused.as_ref().and_then(rustls_error), Some(Error::InvalidCertificate(_)))
}

/// What TLS says of a connection that it ended.
fn rustls_error(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

/// Trusts `roots`, else what is in the `ca` file.
fn client_config(files: &RedisTls, roots: Option<Arc<RootCertStore>>) -> anyhow::Result<ClientConfig> {
    let roots = match (roots, &files.ca) {
        (Some(roots), _) => roots,
        (None, Some(ca)) => Arc::new(roots_in(ca)?),
        (None, None) => Arc::new(RootCertStore::empty()),
    };
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions()?.with_root_certificates(roots);
    let Some(client) = &files.client else { return Ok(config.with_no_client_auth()) };
    let key = PrivateKeyDer::from_pem_file(&client.key).map_err(|error| unreadable("key", &client.key, &error))?;
    let chain = certificates("certificate", &client.certificate)?;
    config
        .with_client_auth_cert(chain, key)
        .map_err(|error| unreadable("certificate", &client.certificate, &format!("with its key: {error}")))
}

fn roots_in(ca: &Path) -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("ca", ca)? {
        roots.add(certificate).map_err(|error| unreadable("ca", ca, &error))?;
    }
    Ok(roots)
}

/// At least one.
fn certificates(key: &str, path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let found: Vec<_> = found.map_err(|error| unreadable(key, path, &error))?;
    if found.is_empty() { Err(unreadable(key, path, &"it has no certificate")) } else { Ok(found) }
}

fn unreadable(key: &str, path: &Path, problem: &impl std::fmt::Display) -> anyhow::Error {
    anyhow::anyhow!("failed to read {} (`{key}` in [store.tls]): {problem}; it must be a PEM file", path.display())
}

async fn machine_roots() -> anyhow::Result<Arc<RootCertStore>> {
    let found = spawn_blocking(rustls_native_certs::load_native_certs).await?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    anyhow::ensure!(
        !roots.is_empty(),
        "this machine trusts no certificate authority; install its ca-certificates, or set `ca` in [store.tls]"
    );
    Ok(Arc::new(roots))
}

//! Where a server answers, and the connection to it.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::spawn_blocking;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{self, CertificateError, ClientConfig, RootCertStore};
use url::{Host, Url};

use gristmill_config::unseen;

/// The address of a server: `http://…` or `https://…`, with a path if a proxy serves it below one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerAddress {
    host: String,
    port: u16,
    is_tls: bool,
    /// Without a slash at its end.
    path: String,
}

/// The text is no address of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no address of a server: {problem}; write one such as https://jobs.example.org or http://127.0.0.1:7331"
)]
pub struct BadServerAddress {
    text: String,
    problem: String,
}

impl FromStr for ServerAddress {
    type Err = BadServerAddress;

    fn from_str(text: &str) -> Result<Self, BadServerAddress> {
        let bad = |problem: &str| BadServerAddress { text: text.into(), problem: problem.into() };
        // Not left to the reader of URLs, which drops them without a word.
        if let Some(problem) = unseen(text) {
            return Err(BadServerAddress { text: text.trim().replace(char::is_control, ""), problem: problem.into() });
        }
        let url = Url::parse(text).map_err(|error| bad(&error.to_string()))?;
        let is_tls = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err(bad("it begins with neither http:// nor https://")),
        };
        if !url.username().is_empty() || url.password().is_some() {
            // The text holds a password, so it is not repeated.
            let problem = "a server takes no password but a token, by --token-file".into();
            return Err(BadServerAddress { text: "…".into(), problem });
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(bad("it goes on behind the path"));
        }
        if url.path().trim_end_matches('/').ends_with("/v1") {
            return Err(bad("leave out `/v1`, with which the path of each request begins"));
        }
        let host = match url.host() {
            Some(Host::Domain(name)) => name.to_owned(),
            Some(Host::Ipv4(address)) => address.to_string(),
            Some(Host::Ipv6(address)) => address.to_string(),
            None => return Err(bad("it names no host")),
        };
        let port = url.port_or_known_default().ok_or_else(|| bad("it names no port"))?;
        Ok(Self { host, port, is_tls, path: url.path().trim_end_matches('/').to_owned() })
    }
}

impl From<SocketAddr> for ServerAddress {
    fn from(address: SocketAddr) -> Self {
        Self { host: address.ip().to_string(), port: address.port(), is_tls: false, path: String::new() }
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", if self.is_tls { "https" } else { "http" }, self.authority(), self.path)
    }
}

/// A connection, with or without TLS.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl ServerAddress {
    /// What is in front of the paths of the API.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Host and port, as the header `Host` has them.
    pub(super) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// A connection to the server. Its certificate must come from an authority that this machine trusts, or from a file that
    /// `SSL_CERT_FILE` names.
    pub(super) async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        if !self.is_tls {
            return Ok(Box::new(stream));
        }
        let name = ServerName::try_from(self.host.clone()).map_err(io::Error::other)?;
        let stream = TlsConnector::from(Arc::new(tls().await?)).connect(name, stream).await;
        Ok(Box::new(stream.map_err(|error| no_handshake(&error))?))
    }

    /// What to do if the answer is no HTTP.
    pub(super) const fn remedy(&self) -> &'static str {
        if self.is_tls { "is it a gristmill?" } else { "if the server has `tls`, write https:// in place of http://" }
    }
}

fn no_handshake(error: &io::Error) -> io::Error {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    let remedy = match cause {
        Some(rustls::Error::InvalidMessage(_)) => "if the server has no `tls`, write http:// in place of https://",
        Some(rustls::Error::InvalidCertificate(CertificateError::Other(_))) => {
            "a certificate that signs itself must not say that it is an authority: make it with -addext basicConstraints=CA:FALSE, or sign it with an \
             authority of your own, named in SSL_CERT_FILE"
        }
        _ => "if its certificate comes from an authority of your own, name that in SSL_CERT_FILE",
    };
    io::Error::other(format!("the TLS handshake failed: {error}; {remedy}"))
}

async fn tls() -> io::Result<ClientConfig> {
    let found = spawn_blocking(rustls_native_certs::load_native_certs).await.map_err(io::Error::other)?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let text = "this machine trusts no certificate authority: install its ca-certificates, or name a file with SSL_CERT_FILE";
        return Err(io::Error::other(text));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().map_err(io::Error::other)?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_as_they_are_written() {
        for (text, shown) in [
            ("https://jobs.example.org", "https://jobs.example.org:443"),
            ("http://127.0.0.1:7331/", "http://127.0.0.1:7331"),
            ("http://[::1]:7331", "http://[::1]:7331"),
            ("https://example.org/jobs/", "https://example.org:443/jobs"),
        ] {
            assert_eq!(text.parse::<ServerAddress>().unwrap().to_string(), shown);
        }
        let loopback: SocketAddr = "[::1]:80".parse().unwrap();
        assert_eq!(ServerAddress::from(loopback).to_string(), "http://[::1]:80");
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_remedy() {
        for (text, problem) in [
            ("jobs.example.org", "relative URL"),
            ("redis://127.0.0.1", "neither http:// nor https://"),
            ("https://u:secret@example.org", "by --token-file"),
            ("https://example.org/?a=b", "goes on behind the path"),
            ("http://127.0.0.1:7331/v1/", "leave out `/v1`"),
            ("https://example.org\r", "control character"),
            ("https://example.org ", "a blank"),
        ] {
            let error = text.parse::<ServerAddress>().unwrap_err().to_string();
            assert!(error.contains(problem) && error.contains("write one such as"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_server_without_tls_is_named_with_the_other_scheme() {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
        let (here, mut there) = tokio::io::duplex(1 << 10);
        tokio::io::AsyncWriteExt::write_all(&mut there, b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let error = TlsConnector::from(Arc::new(config)).connect(name, here).await.err().unwrap();
        assert!(no_handshake(&error).to_string().ends_with("write http:// in place of https://"), "{error}");
    }
}

//! Certificates: which are trusted, and which are refused.

use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_util::task::AbortOnDropHandle;

use super::server::ok;
use super::*;

/// A server with a certificate for this name, which it signed itself.
async fn server(name: &str) -> (u16, CertificateDer<'static>, AbortOnDropHandle<()>) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed([name.to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = config.with_single_cert(vec![cert.der().clone()], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let task = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            // A client that does not trust the certificate closes.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut request = [0; 4096];
            if stream.read(&mut request).await.is_ok_and(|count| count > 0) {
                drop(stream.write_all(ok("safe").as_bytes()).await);
                drop(stream.shutdown().await);
            }
        }
    });
    (port, cert.der().clone(), AbortOnDropHandle::new(task))
}

fn trusting(certificate: Option<CertificateDer<'static>>) -> Outbound {
    let mut roots = RootCertStore::empty();
    certificate.into_iter().for_each(|certificate| roots.add(certificate).unwrap());
    let resolver = Resolver::Fixed(Arc::new(|_| vec!["127.0.0.1".parse().unwrap()]));
    Outbound::with(resolver, TrustedRoots::only(roots))
}

#[tokio::test]
async fn a_certificate_that_is_trusted_will_do() {
    let (port, certificate, _server) = server("safe.example").await;
    let url = format!("https://safe.example:{port}/");
    let answer = send(&trusting(Some(certificate)), local(), get(url)).await;
    assert_eq!(answer.unwrap().body, b"safe");
}

#[tokio::test]
async fn a_self_signed_certificate_is_refused() {
    let (port, _, _server) = server("safe.example").await;
    let (_, another, _other) = server("safe.example").await;
    let answer = send(&trusting(Some(another)), local(), get(format!("https://safe.example:{port}/"))).await;
    assert!(matches!(&answer, Err(HttpError::Unreachable(why)) if why.contains("certificate")), "{answer:?}");
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let (port, certificate, _server) = server("safe.example").await;
    let answer = send(&trusting(Some(certificate)), local(), get(format!("https://other.example:{port}/"))).await;
    assert!(matches!(&answer, Err(HttpError::Unreachable(why)) if why.contains("certificate")), "{answer:?}");
}

#[tokio::test]
async fn a_server_that_speaks_no_tls_is_refused() {
    let plain = super::server::Server::saying(&ok("x")).await;
    let url = format!("https://server.example:{}/", plain.port());
    // It waits for the end of a request that never comes.
    let answer = fetch(Request { timeout: Some(300), ..get(url) }).await;
    assert_eq!(end(&answer), "timeout");
}

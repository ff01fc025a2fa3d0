//! A connection: name to addresses, addresses to those that are granted, one of those to a stream.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OnceCell, Semaphore};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_util::task::AbortOnDropHandle;
use url::{Host, Url};

use super::super::bindings::http::HttpError;
use super::request_body::{RequestBody, cause};
use super::resolve::Resolver;
use super::roots::TrustedRoots;
use gristmill_core::http_grant::HttpGrant;
use gristmill_core::job::TopicId;

/// For one address, if there is another one to try.
const CONNECT_TIME: Duration = Duration::from_secs(3);
/// Names that one topic may have looked up at once.
const LOOKUPS: usize = 8;
/// Status line and headers of an answer.
const HEAD_BYTES_MAX: usize = 64 << 10;
const HEADERS_MAX: usize = 100;
/// What a connection reads ahead of its reader, at most.
const READ_AHEAD_BYTES: usize = 2 * HEAD_BYTES_MAX;

/// What a connection is to, and kept for: scheme, host and port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Origin {
    pub(super) tls: bool,
    pub(super) host: Host<String>,
    pub(super) port: u16,
}

/// A way to speak HTTP/1.1 to an origin. Dropping it closes it, whatever is under way.
#[derive(Debug)]
pub(super) struct Connection {
    sender: SendRequest<RequestBody>,
    _driver: AbortOnDropHandle<()>,
}

/// Makes connections, to what one topic is granted.
pub(super) struct Connector {
    topic: TopicId,
    grant: Arc<HttpGrant>,
    resolver: Resolver,
    lookups: Arc<Semaphore>,
    trust: TrustedRoots,
    tls: OnceCell<TlsConnector>,
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

impl Origin {
    /// `None` if the URL has no host or no known port.
    pub(super) fn of(url: &Url) -> Option<Self> {
        Some(Self { tls: url.scheme() == "https", host: url.host()?.to_owned(), port: url.port_or_known_default()? })
    }
}

impl Connector {
    pub(super) fn new(topic: TopicId, grant: Arc<HttpGrant>, resolver: Resolver, trust: TrustedRoots) -> Self {
        Self { topic, grant, resolver, lookups: Arc::new(Semaphore::new(LOOKUPS)), trust, tls: OnceCell::new() }
    }

    /// Connects to one of the origin's addresses that are granted; to no other, whatever the name says a second later.
    pub(super) async fn connect(&self, origin: &Origin) -> Result<Connection, HttpError> {
        let addresses = self.addresses(&origin.host).await?;
        let stream = reach(&addresses, origin.port).await.map_err(|error| unreachable(origin, &error))?;
        let stream = if origin.tls { self.secure(origin, stream).await? } else { Box::new(stream) };
        let mut builder = http1::Builder::new();
        builder.max_headers(HEADERS_MAX).max_header_size(HEAD_BYTES_MAX).max_buf_size(READ_AHEAD_BYTES);
        let shaken = builder.handshake(TokioIo::new(stream)).await;
        let (sender, connection) = shaken.map_err(|error| unreachable(origin, &error))?;
        let driver = tokio::spawn(async move { drop(connection.await) });
        Ok(Connection { sender, _driver: AbortOnDropHandle::new(driver) })
    }

    /// The granted addresses of a host, best first; at least one.
    async fn addresses(&self, host: &Host<String>) -> Result<Vec<IpAddr>, HttpError> {
        let found = match host {
            Host::Ipv4(address) => vec![IpAddr::V4(*address)],
            Host::Ipv6(address) => vec![IpAddr::V6(*address)],
            Host::Domain(name) => self.resolver.resolve(name, &self.lookups).await.unwrap_or_default(),
        };
        let refused = found.iter().find_map(|address| Some((*address, self.grant.refuses(*address, is_own)?)));
        let granted: Vec<_> =
            found.into_iter().filter(|address| self.grant.refuses(*address, is_own).is_none()).collect();
        match refused {
            _ if !granted.is_empty() => Ok(granted),
            // What is left out here would reveal the machine's network to the guest.
            Some((address, kind)) => {
                // An address that the guest has written itself reveals nothing.
                let line = match host {
                    Host::Domain(name) if name.trim_end_matches('.').eq_ignore_ascii_case("localhost") => {
                        ": networks = [\"127.0.0.1\", \"::1\"]".to_owned()
                    }
                    Host::Domain(_) => String::new(),
                    Host::Ipv4(_) | Host::Ipv6(_) => format!(": networks = [\"{address}\"]"),
                };
                let (topic, host) = (&self.topic, host.to_string());
                tracing::info!(%topic, host, %address, kind, "request denied: only `networks` opens such an address");
                Err(HttpError::Denied(format!(
                    "`{host}` has no address that this topic is granted: one that is not public has to be in `networks`, beside `allow`{line}"
                )))
            }
            None => Err(HttpError::Unreachable(format!("`{host}` has no address"))),
        }
    }

    async fn secure(&self, origin: &Origin, stream: TcpStream) -> Result<Box<dyn Stream>, HttpError> {
        let failed = |error: io::Error| unreachable(origin, &error);
        let connector = self.tls.get_or_try_init(|| self.trust.connector()).await.map_err(failed)?;
        let name = match &origin.host {
            Host::Domain(name) => {
                ServerName::try_from(name.clone()).map_err(|error| failed(io::Error::other(error)))?
            }
            Host::Ipv4(address) => ServerName::from(IpAddr::V4(*address)),
            Host::Ipv6(address) => ServerName::from(IpAddr::V6(*address)),
        };
        Ok(Box::new(connector.connect(name, stream).await.map_err(failed)?))
    }
}

/// Whether an interface of this machine has the address: only then can a socket be bound to it.
fn is_own(address: IpAddr) -> bool {
    UdpSocket::bind(SocketAddr::new(address, 0)).is_ok()
}

/// Tries one address after the other.
async fn reach(addresses: &[IpAddr], port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for (number, address) in (1..).zip(addresses) {
        let connecting = TcpStream::connect(SocketAddr::new(*address, port));
        let stream = if number == addresses.len() {
            connecting.await
        } else {
            tokio::time::timeout(CONNECT_TIME, connecting).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
        };
        match stream {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl Connection {
    /// Whether it can be hoped to take a request.
    pub(super) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    /// Sends a request and waits for the head of its answer.
    ///
    /// # Errors
    /// It broke off; with the request if nothing of it has been sent.
    pub(super) async fn send(
        &mut self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, (hyper::Error, Option<Request<RequestBody>>)> {
        if let Err(error) = self.sender.ready().await {
            return Err((error, Some(request)));
        }
        self.sender.try_send_request(request).await.map_err(|mut error| {
            let request = error.take_message();
            (error.into_error(), request)
        })
    }
}

/// What a connection that broke off comes to.
pub(super) fn broken(origin: &Origin, error: &hyper::Error) -> HttpError {
    if error.is_parse_too_large() {
        return HttpError::TooLarge(HEAD_BYTES_MAX as u64);
    }
    cause(error).unwrap_or_else(|| unreachable(origin, error))
}

/// Nothing of the URL but its host and port: the rest may be secret.
fn unreachable(origin: &Origin, error: &dyn std::error::Error) -> HttpError {
    let mut text = format!("`{}:{}`: {error}", origin.host, origin.port);
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.ends_with(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    HttpError::Unreachable(text)
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("grant", &self.grant).finish_non_exhaustive()
    }
}

//! Takes the address that the manifest names.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpListener;

use gristmill_config::Listen;

/// The address cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("failed to listen on {address}: name another `listen` in [http] (port 0 is any free one), or end who has it")]
pub struct ListenError {
    /// Where the server should have listened.
    pub address: SocketAddr,
    #[source]
    source: io::Error,
}

/// A listener where the settings want one; none if they want none.
///
/// # Errors
/// The address is taken or not ours. If the operator did not name it, any free port will do instead, and the log says so.
pub async fn listen(settings: Listen) -> Result<Option<TcpListener>, ListenError> {
    let Some(address) = settings.address() else { return Ok(None) };
    let bound = match TcpListener::bind(address).await {
        Err(error) if settings == Listen::Usual && error.kind() == io::ErrorKind::AddrInUse => {
            tracing::warn!("port {} is taken: listening on another one", address.port());
            TcpListener::bind(SocketAddr::new(address.ip(), 0)).await
        }
        bound => bound,
    };
    bound.map(Some).map_err(|source| ListenError { address, source })
}

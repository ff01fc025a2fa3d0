//! Opens the HTTP server that a manifest asks for, and says in the log which clients it accepts.

use std::net::SocketAddr;

use crate::error::StartError;
use crate::open::Opened;
use gristmill_config::{Listen, Manifest};
use gristmill_core::token::TokenRequirement;
use gristmill_server::{HttpServer, HttpServerSettings, listen};

/// Listens, and writes down for other processes where. Returns `None` if the manifest asks for no server.
///
/// # Errors
/// The address is taken, or others can reach it and there are no tokens; the certificate cannot be used; the store is
/// unavailable.
pub(crate) async fn open(
    manifest: &Manifest,
    settings: &HttpServerSettings,
    opened: &Opened,
) -> Result<Option<HttpServer>, StartError> {
    let address = manifest.http.listen;
    let needs_token = address != Listen::Off && opened.store.token_requirement().await? == TokenRequirement::Required;
    if let Listen::At(address) = address
        && !needs_token
        && !settings.insecure
        && !address.ip().is_loopback()
    {
        return Err(StartError::NoTokens(address));
    }
    let Some(listener) = listen(address).await? else {
        if let Some(admin) = manifest.lmstfy.admin {
            tracing::warn!("nothing listens on {admin} for lmstfy's admin API either: `listen` in [http] is \"off\"");
        }
        return Ok(None);
    };
    let store_name = manifest.store.address.to_string();
    let server = HttpServer::start(listener, opened.store.clone(), &store_name, settings).await?;
    if let Some(admin) = server.lmstfy_admin_address() {
        let scheme = if settings.tls.is_some() { "https" } else { "http" };
        tracing::info!("lmstfy's admin API is on {scheme}://{admin}");
    }
    #[cfg(feature = "embedded")]
    opened.announce(server.address_for_commands(), server.secret(), server.name())?;
    log_access(server.address(), settings, needs_token);
    Ok(Some(server))
}

fn log_access(address: SocketAddr, settings: &HttpServerSettings, needs_token: bool) {
    let tls = settings.tls.is_some();
    let scheme = if tls { "https" } else { "http" };
    tracing::info!("listening on {scheme}://{address}");
    if settings.page.enabled {
        tracing::info!("the page is {scheme}://{address}/");
    }
    match (needs_token, address.ip().is_loopback()) {
        (false, true) => tracing::info!(
            "there are no tokens: every user of this machine may do everything, until `gristmill token create` makes one"
        ),
        (false, false) => {
            tracing::warn!("there are no tokens: every client that can reach {address} may do everything");
        }
        (true, false) if !tls => tracing::warn!(
            "tokens go over the network for all to read: set [http.tls], or put a proxy that speaks TLS in front"
        ),
        (true, _) => {}
    }
}

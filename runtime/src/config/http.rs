//! `[http]`: where the server listens.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::read::Section;

/// `[http]`: the server's door for commands and for whoever watches over it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HttpSettings {
    pub listen: Listen,
}

/// Where to listen. Always a loopback address: who can reach the door may do everything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Listen {
    /// Nobody said: at [`Listen::USUAL`], or at any free port if that one is taken.
    #[default]
    Usual,
    /// There and nowhere else. Port 0 is any free one.
    At(SocketAddr),
    Off,
}

impl Listen {
    pub const USUAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7331);
}

pub(super) fn http(root: &mut Section<'_>) -> HttpSettings {
    let mut http = HttpSettings::default();
    let Some(mut section) = root.section("http") else { return http };
    if let Some(listen) = listen(&mut section) {
        http.listen = listen;
    }
    section.finish();
    http
}

fn listen(section: &mut Section<'_>) -> Option<Listen> {
    let must = "an IP address with a port such as \"127.0.0.1:7331\", or \"off\"";
    let value = section.value("listen")?;
    let read = |text: &str| match text {
        "off" => Some(Listen::Off),
        _ => text.parse().ok().map(Listen::At),
    };
    match section.text("listen", value, must, read)? {
        Listen::At(address) if !address.ip().is_loopback() => {
            let title = "`listen` in [http] is not a loopback address";
            let help = "there are no tokens yet, so only this machine may come in: use 127.0.0.1 or [::1]";
            section.problems().add(section.problems().at(value.span(), title).help(help));
            None
        }
        listen => Some(listen),
    }
}

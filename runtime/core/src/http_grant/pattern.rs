//! Hosts, as a manifest writes them: `hooks.example.com`, `*.example.org`, `http://[2001:db8::1]:8080`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use url::{Host, Url};

/// Scheme, hosts and ports that go together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPattern {
    scheme: Scheme,
    hosts: Hosts,
    /// None: any.
    port: Option<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
}

/// Names are in lower case, in Punycode, and have no dot at their end.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    Any,
    /// Every name that ends in this, which begins with a dot.
    Below(String),
    Name(String),
    Address(IpAddr),
}

/// What is wrong with a pattern, and how to write one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadPattern(String);

impl HostPattern {
    /// Whether scheme, host and port of the URL are within the pattern.
    pub fn matches(&self, url: &Url) -> bool {
        let port = url.port_or_known_default();
        url.scheme() == self.scheme.name()
            && (self.port.is_none() || self.port == port)
            && url.host().is_some_and(|host| self.hosts.matches(&host))
    }

    /// Whether this pattern matches everything that `other` matches.
    pub fn covers(&self, other: &Self) -> bool {
        self.scheme == other.scheme
            && (self.port.is_none() || self.port == other.port)
            && self.hosts.covers(&other.hosts)
    }
}

impl Scheme {
    const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    const fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl Hosts {
    fn matches(&self, host: &Host<&str>) -> bool {
        match (self, host) {
            (Self::Any, _) => true,
            (Self::Below(end), Host::Domain(name)) => is_below(without_last_dot(name), end),
            (Self::Name(own), Host::Domain(name)) => own == without_last_dot(name),
            (Self::Address(own), Host::Ipv4(address)) => *own == IpAddr::V4(*address),
            (Self::Address(own), Host::Ipv6(address)) => *own == IpAddr::V6(*address),
            _ => false,
        }
    }

    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) => true,
            (Self::Below(end), Self::Below(inner)) => inner.ends_with(end.as_str()),
            (Self::Below(end), Self::Name(name)) => is_below(name, end),
            _ => self == other,
        }
    }
}

fn is_below(name: &str, end: &str) -> bool {
    name.len() > end.len() && name.ends_with(end)
}

/// `example.com.` is `example.com` to all but a resolver's search list.
fn without_last_dot(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

impl FromStr for HostPattern {
    type Err = BadPattern;

    fn from_str(text: &str) -> Result<Self, BadPattern> {
        let (scheme, rest) = match text.split_once("://") {
            None => (Scheme::Https, text),
            Some(("https", rest)) => (Scheme::Https, rest),
            Some(("http", rest)) => (Scheme::Http, rest),
            Some((other, _)) => return Err(bad(format!("`{other}` is no scheme of ours: there are https and http"))),
        };
        if let Some(extra) = rest.find(['/', '?', '#', '@', '\\']) {
            let extra = rest.get(extra..).unwrap_or_default();
            return Err(bad(format!("a host and perhaps a port is all there can be: leave out `{extra}`")));
        }
        let (host, port) = split_port(rest)?;
        let port = match port {
            None => Some(scheme.port()),
            Some("*") => None,
            Some(digits) => Some(read_port(digits)?),
        };
        Ok(Self { scheme, hosts: hosts(host)?, port })
    }
}

/// A colon within brackets is the address's own.
fn split_port(text: &str) -> Result<(&str, Option<&str>), BadPattern> {
    let end_of_address = text.rfind(']').unwrap_or(0);
    match text.rfind(':').filter(|colon| *colon >= end_of_address) {
        Some(colon) if text.get(..colon).is_some_and(|host| host.contains(':') && !host.starts_with('[')) => {
            Err(bad(format!("write an IPv6 address in brackets: [{text}]")))
        }
        Some(colon) => Ok((text.get(..colon).unwrap_or_default(), text.get(colon + 1..))),
        None => Ok((text, None)),
    }
}

fn read_port(digits: &str) -> Result<u16, BadPattern> {
    let port = Some(digits).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let port = port.and_then(|digits| digits.parse().ok()).filter(|port| *port > 0);
    port.ok_or_else(|| bad(format!("`{digits}` is no port: write 1 to 65535, or `*` for any")))
}

fn hosts(text: &str) -> Result<Hosts, BadPattern> {
    if text == "*" {
        return Ok(Hosts::Any);
    }
    let (below, text) = text.strip_prefix("*.").map_or((false, text), |rest| (true, rest));
    if text.contains('*') {
        return Err(bad("`*` stands alone, or before a name as in `*.example.com`".to_owned()));
    }
    // What a percent sign would be decoded to is not what people read.
    let host = if text.contains('%') { None } else { Host::parse(without_last_dot(text)).ok() };
    match host {
        Some(Host::Domain(name)) if below => Ok(Hosts::Below(format!(".{name}"))),
        Some(Host::Domain(name)) if !name.is_empty() => Ok(Hosts::Name(name)),
        Some(Host::Ipv4(address)) if !below => Ok(Hosts::Address(address.into())),
        Some(Host::Ipv6(address)) if !below => Ok(Hosts::Address(address.into())),
        _ => Err(bad(format!("`{text}` is no host: write a name, `*.` and a name, `*`, or an address"))),
    }
}

fn bad(problem: String) -> BadPattern {
    BadPattern(problem)
}

/// As a manifest would write it.
impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.scheme == Scheme::Http {
            f.write_str("http://")?;
        }
        match &self.hosts {
            Hosts::Any => f.write_str("*")?,
            Hosts::Below(end) => write!(f, "*{end}")?,
            Hosts::Name(name) => f.write_str(name)?,
            Hosts::Address(IpAddr::V4(address)) => write!(f, "{address}")?,
            Hosts::Address(IpAddr::V6(address)) => write!(f, "[{address}]")?,
        }
        match self.port {
            None => f.write_str(":*"),
            Some(port) if port == self.scheme.port() => Ok(()),
            Some(port) => write!(f, ":{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> HostPattern {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn matches(text: &str, url: &str) -> bool {
        pattern(text).matches(&Url::parse(url).unwrap())
    }

    #[test]
    fn a_pattern_matches_its_scheme_host_and_port() {
        let yes = [
            ("hooks.example.com", "https://hooks.example.com/a?b"),
            ("hooks.example.com", "https://hooks.example.com:443/"),
            ("Hooks.Example.COM.", "https://HOOKS.example.com./"),
            ("api.example.com:8443", "https://api.example.com:8443/"),
            ("http://plain.example.com", "http://plain.example.com/"),
            ("api.example.com:*", "https://api.example.com:1/"),
            ("*.example.org", "https://a.example.org/"),
            ("*.example.org", "https://a.b.example.org./"),
            ("*", "https://anything.at.all/"),
            ("*", "https://1.2.3.4/"),
            ("bücher.example", "https://xn--bcher-kva.example/"),
            ("xn--bcher-kva.example", "https://BÜCHER.example/"),
            ("1.2.3.4", "https://0x1020304/"),
            ("1.2.3.4", "https://1.2.772/"),
            ("[2001:db8::1]", "https://[2001:DB8:0:0::1]/"),
            ("http://[::1]:*", "http://[::1]:8080/"),
            // Fullwidth letters and stops are what they look like.
            ("example.com", "https://ｅｘａｍｐｌｅ。com/"),
        ];
        for (text, url) in yes {
            assert!(matches(text, url), "{text} should match {url}");
        }
    }

    #[test]
    fn a_pattern_matches_nothing_else() {
        let no = [
            ("hooks.example.com", "http://hooks.example.com/"),
            ("hooks.example.com", "https://hooks.example.com:8443/"),
            ("hooks.example.com", "https://example.com/"),
            ("hooks.example.com", "https://a.hooks.example.com/"),
            ("hooks.example.com", "https://hooks.example.com.evil.test/"),
            ("hooks.example.com", "https://evilhooks.example.com/"),
            ("http://plain.example.com", "https://plain.example.com:80/"),
            ("*.example.org", "https://example.org/"),
            ("*.example.org", "https://.example.org/"),
            ("*.example.org", "https://evilexample.org/"),
            ("*.example.org", "https://example.org.evil.test/"),
            ("*", "http://plain.example.com/"),
            ("*", "https://example.com:444/"),
            ("*", "ftp://example.com:443/"),
            ("hooks.example.com", "https://hooks.example.com@evil.test/"),
            ("hooks.example.com", "https://evil.test\\@hooks.example.com/"),
            ("1.2.3.4", "https://1.2.3.5/"),
        ];
        for (text, url) in no {
            assert!(!matches(text, url), "{text} should not match {url}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused_with_the_remedy() {
        let cases = [
            ("", "is no host"),
            ("ftp://example.com", "there are https and http"),
            ("example.com/path", "leave out `/path`"),
            ("https://user@example.com", "leave out `@example.com`"),
            ("example.com:0", "is no port"),
            ("example.com:", "is no port"),
            ("example.com:+1", "is no port"),
            ("example.com:65536", "is no port"),
            ("::1", "in brackets"),
            ("a.*.com", "stands alone"),
            ("*.*.com", "stands alone"),
            ("*com", "stands alone"),
            ("*.", "is no host"),
            ("*.127.0.0.1", "is no host"),
            ("*.[::1]", "is no host"),
            ("exa mple.com", "is no host"),
            ("%65xample.com", "is no host"),
            ("[::1", "is no host"),
        ];
        for (text, part) in cases {
            let error = text.parse::<HostPattern>().expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_bound_covers_what_is_no_wider_than_itself() {
        let yes = [
            ("*", "example.com"),
            ("*", "*"),
            ("*.acme.com", "hooks.acme.com"),
            ("*.acme.com", "*.eu.acme.com"),
            ("*.acme.com", "*.acme.com"),
            ("*.acme.com:*", "hooks.acme.com:8443"),
            ("http://acme.com", "http://acme.com"),
        ];
        let no = [
            ("*.acme.com", "acme.com"),
            ("*.acme.com", "*"),
            ("*.acme.com", "*.com"),
            ("*.acme.com", "*.evilacme.com"),
            ("*.acme.com", "hooks.acme.com:8443"),
            ("*.acme.com", "hooks.acme.com:*"),
            ("*.acme.com", "http://hooks.acme.com"),
            ("hooks.acme.com", "*.acme.com"),
            ("1.2.3.4", "1.2.3.5"),
        ];
        for (bound, inner) in yes {
            assert!(pattern(bound).covers(&pattern(inner)), "{bound} should cover {inner}");
        }
        for (bound, inner) in no {
            assert!(!pattern(bound).covers(&pattern(inner)), "{bound} should not cover {inner}");
        }
    }

    #[test]
    fn a_pattern_is_shown_as_it_would_be_written() {
        for text in
            ["a.example", "*.a.example", "*", "http://a.example:81", "a.example:*", "[2001:db8::1]:8443", "1.2.3.4"]
        {
            assert_eq!(pattern(text).to_string(), text);
        }
        assert_eq!(pattern("https://A.example.:443").to_string(), "a.example");
    }

    #[test]
    fn made_up_patterns_never_match_more_than_they_cover() {
        let known: [&[u8]; 6] = [
            b"*.example.com https://a.example.com/x",
            b"http://[::1]:8080 http://[::1]:8080/",
            b"10.0.0.1 https://10.0.0.1",
            b"http://*:* http://b\xc3\xbc.de./",
            b"a.b:443 https://user@a.b:443/?q#f",
            b"xn--bcher-kva.example https://B\xc3\xbccher.example",
        ];
        gristmill_fuzz::check("http-pattern", &known, |input| {
            let text = String::from_utf8_lossy(input);
            let (pattern, url) = text.split_once(' ').unwrap_or((&text, "https://example.com"));
            let pattern: Result<HostPattern, BadPattern> = pattern.parse();
            let url = Url::parse(url);
            let (Ok(pattern), Ok(url)) = (&pattern, &url) else { return Err((pattern.is_ok(), url.is_ok())) };
            let all: HostPattern = format!("{}://*:*", pattern.scheme.name()).parse().unwrap();
            assert!(all.covers(pattern));
            assert!(!pattern.matches(url) || all.matches(url));
            Ok((url.has_host(), pattern.matches(url)))
        });
    }
}

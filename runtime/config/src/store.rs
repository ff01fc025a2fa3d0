//! `[store]`: where jobs are. An address is read once, here; all other code sees which kind of store it names.

use std::fmt;
use std::path::{Path, PathBuf};

use super::exposure::warn_if_exposed;
use super::grants;
use super::paths::{resolved, unseen};
use super::read::Section;
use super::redis::{self, RedisSettings};

/// The file that holds the jobs unless the manifest says otherwise.
const DEFAULT_FILE: &str = "gristmill.db";

/// `[store]`: where jobs are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreSettings {
    /// Where the store is.
    pub address: StoreAddress,
    /// Files only.
    pub durability: Durability,
    /// Redis only.
    pub redis: RedisSettings,
}

/// Which store, by kind. Shown without passwords.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreAddress {
    /// A SQLite file, which has one owner at a time.
    File(PathBuf),
    /// A SQLite database in the memory of the server, gone with it.
    Memory,
    /// A Redis server, by its whole URL. May hold a password.
    Redis(String),
}

/// What an acknowledged job outlives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// A power cut: each commit waits for the disk.
    #[default]
    Power,
    /// The end of the process, however sudden.
    Process,
}

/// Why a text is no address of a store. Holds no part of the text but the name of a kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadStoreAddress(String);

impl StoreSettings {
    pub(super) fn default_at(folder: &Path) -> Self {
        let address = StoreAddress::File(folder.join(DEFAULT_FILE));
        Self { address, durability: Durability::default(), redis: RedisSettings::default() }
    }

    /// Whether both name the same jobs, as far as their addresses show. Two stores in memory are two.
    pub fn is_same_store(&self, other: &Self) -> bool {
        match (&self.address, &other.address) {
            (StoreAddress::File(one), StoreAddress::File(other)) => resolved(one) == resolved(other),
            (StoreAddress::Redis(one), StoreAddress::Redis(another)) => {
                server(one) == server(another) && self.redis.prefix == other.redis.prefix
            }
            _ => false,
        }
    }
}

impl StoreAddress {
    /// Reads `sqlite:path`, `sqlite::memory:`, `redis://…`, `rediss://…`, `redis+unix://…`, `redis+sentinel://…` or `redis+cluster://…`. A relative path is relative to `folder`.
    ///
    /// # Errors
    /// It is none of them, or has parts that would be ignored.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, BadStoreAddress> {
        if let Some(problem) = unseen(text) {
            return Err(BadStoreAddress(problem.into()));
        }
        if text.is_empty() {
            return Err(BadStoreAddress("it is empty: is the variable or the file that it comes from?".into()));
        }
        if text.starts_with(['"', '\'']) {
            return Err(BadStoreAddress("it begins with a quotation mark: leave those out where it is set".into()));
        }
        if let Some(place) = text.strip_prefix("sqlite:") {
            return sqlite(place, folder);
        }
        match text.split_once("://") {
            Some((
                kind @ ("redis" | "rediss" | "redis+unix" | "redis+sentinel" | "rediss+sentinel" | "redis+cluster"
                | "rediss+cluster"),
                rest,
            )) => check_options(kind, rest).map(|()| Self::Redis(text.to_owned())),
            Some((kind, _)) if kind.chars().all(|c| c.is_ascii_alphanumeric() || c == '+') => {
                Err(BadStoreAddress(format!(
                    "`{kind}` is no kind of store; there are `sqlite:`, `redis://`, `rediss://`, `redis+unix://`, \
                     `redis+sentinel://`, `rediss+sentinel://`, `redis+cluster://` and `rediss+cluster://`"
                )))
            }
            _ => Err(BadStoreAddress(
                "an address begins with the kind of store, as in `sqlite:gristmill.db` or `redis://127.0.0.1:6379/0`"
                    .into(),
            )),
        }
    }

    /// Whether its text says a password.
    fn has_password(&self) -> bool {
        let Self::Redis(url) = self else { return false };
        let user = url.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@')).map_or("", |(user, _)| user);
        user.contains(':') || url.contains("sentinel-password=")
    }

    /// Whether it is a Redis that is spoken to by TLS.
    pub(super) fn uses_tls(&self) -> bool {
        matches!(self, Self::Redis(url) if url.starts_with("rediss"))
    }
}

/// Refuses what the client of a Redis would ignore. `rest`: what follows `kind://`.
fn check_options(kind: &str, rest: &str) -> Result<(), BadStoreAddress> {
    if rest.contains('#') {
        return Err(BadStoreAddress(
            "`#` means nothing in the address of a Redis; in a password, write it as %23".into(),
        ));
    }
    let Some((_, options)) = rest.split_once('?') else { return Ok(()) };
    let known: &[&str] = match kind {
        "redis+unix" => &["db", "user", "pass"],
        "redis+sentinel" | "rediss+sentinel" => &["sentinel-user", "sentinel-password"],
        _ => &[],
    };
    let mut names = options.split('&').map(|option| option.split_once('=').map_or(option, |(name, _)| name));
    if names.all(|name| known.contains(&name)) {
        return Ok(());
    }
    Err(BadStoreAddress(match known {
        [] => format!(
            "behind `{kind}://` there are no `?` options: the database comes behind a slash, as in \
             `redis://127.0.0.1:6379/3`, the password before the host (with a `?` as %3F), and the prefix is \
             `prefix` in the manifest"
        ),
        known => format!("behind the `?` of `{kind}://` there are {} only", known.join(", ")),
    }))
}

/// Which database of which server an address names: without the user, and with the defaults filled in.
fn server(url: &str) -> String {
    // Sentinels are several hosts, which makes it no url.
    let Ok(url) = url::Url::parse(url) else { return StoreAddress::Redis(url.to_owned()).to_string() };
    let path = url.path().trim_matches('/');
    let database = if path.is_empty() && url.scheme() != "redis+unix" { "0" } else { path };
    let query = url.query().unwrap_or_default();
    format!(
        "{}://{}:{}/{database}?{query}",
        url.scheme(),
        url.host_str().unwrap_or_default(),
        url.port().unwrap_or(6379)
    )
}

/// `place`: what follows `sqlite:`.
fn sqlite(place: &str, folder: &Path) -> Result<StoreAddress, BadStoreAddress> {
    let bad = |problem: &str| Err(BadStoreAddress(problem.into()));
    match place.strip_prefix("//").unwrap_or(place) {
        ":memory:" if place == ":memory:" => Ok(StoreAddress::Memory),
        "" => bad("after `sqlite:` comes the path of a file, or `:memory:`"),
        path if path.contains('?') => bad("after the path of a SQLite file comes nothing: there are no `?` options"),
        path if place.starts_with("//") && !path.starts_with('/') => {
            bad("after `sqlite://` comes an absolute path; write a relative one as in `sqlite:gristmill.db`")
        }
        path => Ok(StoreAddress::File(folder.join(path))),
    }
}

/// Paths are relative to `folder`, the manifest's.
pub(super) fn store(root: &mut Section<'_>, folder: &Path) -> StoreSettings {
    let Some(mut section) = root.section("store") else { return StoreSettings::default_at(folder) };
    let store = settings(&mut section, folder);
    section.finish();
    store
}

/// The keys that every store has.
pub(super) fn settings(section: &mut Section<'_>, folder: &Path) -> StoreSettings {
    let mut store = StoreSettings::default_at(folder);
    if let Some(address) = address(section, folder) {
        store.address = address;
    }
    store.redis = redis::settings(section, folder, store.address.uses_tls());
    let durabilities = [("power", Durability::Power), ("process", Durability::Process)];
    section.choice("durability", &durabilities, &mut store.durability);
    if matches!(store.address, StoreAddress::Redis(_)) {
        // To ignore it would be to promise what the server's own settings decide.
        section.misplaced("durability", "it is for SQLite files; what Redis keeps is set in Redis (`appendfsync`)");
    } else {
        section.misplaced("acknowledged-by", "it is for Redis; what a SQLite file keeps is set by `durability`");
    }
    store
}

/// The address itself, or where it stands, because it may hold a password.
fn address(section: &mut Section<'_>, folder: &Path) -> Option<StoreAddress> {
    let value = section.value("url")?;
    let problems = section.problems();
    let (text, secret) = match value.get_ref().as_str() {
        Some(text) => (text.to_owned(), false),
        None => {
            let text = grants::secret("url", value, false, folder, problems)?;
            (String::from_utf8_lossy(&text).trim().to_owned(), true)
        }
    };
    let address = StoreAddress::parse(&text, folder);
    if !secret && address.as_ref().is_ok_and(StoreAddress::has_password) {
        warn_if_exposed(problems.path());
    }
    if let Err(BadStoreAddress(problem)) = &address {
        let title = format!("`url` in {} is no address of a store", section.title());
        let problem = problems.at(value.span(), title).label(problem);
        problems.add(if !secret && text.contains('@') { problem.redacted() } else { problem });
    }
    address.ok()
}

impl fmt::Display for StoreAddress {
    /// As it is written in a manifest, without the user and the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "sqlite:{}", path.display()),
            Self::Memory => f.write_str("sqlite::memory:"),
            Self::Redis(url) => {
                let (kind, rest) = url.split_once("://").unwrap_or(("redis", url));
                let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
                let (place, options) = host.split_once('?').unwrap_or((host, ""));
                // The other options name users and passwords.
                match options.split('&').find(|option| option.starts_with("db=")) {
                    Some(database) => write!(f, "{kind}://{place}?{database}"),
                    None => write!(f, "{kind}://{place}"),
                }
            }
        }
    }
}

impl fmt::Debug for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<StoreAddress, String> {
        StoreAddress::parse(text, Path::new("/etc/mill")).map_err(|BadStoreAddress(problem)| problem)
    }

    #[test]
    fn an_address_names_its_kind() {
        let file = |path: &str| Ok(StoreAddress::File(path.into()));
        assert_eq!(parse("sqlite:jobs.db"), file("/etc/mill/jobs.db"));
        assert_eq!(parse("sqlite:/var/jobs.db"), file("/var/jobs.db"));
        assert_eq!(parse("sqlite:///var/jobs.db"), file("/var/jobs.db"));
        assert_eq!(parse("sqlite::memory:"), Ok(StoreAddress::Memory));
        for url in ["redis://127.0.0.1:6379/0", "redis+unix:///run/redis.sock"] {
            assert_eq!(parse(url), Ok(StoreAddress::Redis(url.into())));
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_what_to_write() {
        let bad = [
            ("sqlite:", ":memory:"),
            ("sqlite://jobs.db", "absolute"),
            ("sqlite://:memory:", "absolute"),
            ("sqlite:jobs.db?mode=ro", "options"),
            ("postgres://me:hunter2@db/jobs", "`postgres` is no kind of store"),
            ("jobs.db", "sqlite:"),
            ("me:hunter2@db://x", "begins with the kind"),
            ("", "it is empty"),
            ("\"redis://127.0.0.1:6379/0\"", "begins with a quotation mark"),
            ("redis://h:1?db=3", "redis://127.0.0.1:6379/3"),
            ("rediss://h/0?password=hunter2", "there are no `?` options"),
            ("redis+cluster://h1,h2?prefix=a", "`prefix` in the manifest"),
            ("redis+unix:///run/redis.sock?db=3&prefix=a", "db, user, pass only"),
            ("redis+sentinel://h/main?password=hunter2", "sentinel-user, sentinel-password only"),
            ("redis://h/0#hunter2", "%23"),
            ("sqlite:jobs.db ", "blank"),
            ("sqlite:jobs.db\r", "control character"),
            ("redis://h/0\n", "control character"),
        ];
        for (text, part) in bad {
            let problem = parse(text).unwrap_err();
            assert!(problem.contains(part) && !problem.contains("hunter2"), "{text}: {problem}");
        }
    }

    #[test]
    fn an_address_is_shown_without_its_password_and_reads_back() {
        let redis = parse("redis://me:hunter2@db:6379/1").unwrap();
        assert_eq!((redis.to_string(), format!("{redis:?}")), ("redis://db:6379/1".into(), "redis://db:6379/1".into()));
        let socket = parse("redis+unix:///run/redis.sock?user=me&db=3&pass=hunter2").unwrap();
        assert_eq!(socket.to_string(), "redis+unix:///run/redis.sock?db=3");
        for text in ["sqlite:/etc/mill/jobs.db", "sqlite::memory:", "rediss://db/1"] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
    }
}

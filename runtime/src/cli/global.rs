//! The options that every command has, and what they stand for.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use anyhow::Context;
use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;

use super::exit::Usage;
use super::screen;
use super::store::{NoStoreYet, Reached, Way};
use super::table::Table;
use gristmill_config::{Manifest, ManifestError, StoreAddress, unseen, warn_if_exposed};
use gristmill_core::job::{Name, TopicId};
use gristmill_core::token::TokenText;
use gristmill_server::{RemoteStore, ServerAddress};
use gristmill_store::Produce;

/// Read if no manifest is named and it is there.
const DEFAULT_MANIFEST: &str = "gristmill.toml";

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Global options")]
pub(super) struct Global {
    /// The manifest [default: ./gristmill.toml, if there is one]
    #[arg(long, short, global = true, env = "GRISTMILL_MANIFEST", value_name = "PATH")]
    manifest: Option<PathBuf>,
    /// The store's address, instead of the manifest's
    #[arg(long, global = true, env = "GRISTMILL_STORE", value_name = "URL", hide_env_values = true)]
    store: Option<String>,
    /// The server to ask instead of a store, by its http or https URL
    #[arg(long, global = true, env = "GRISTMILL_SERVER", value_name = "URL", conflicts_with = "store")]
    server: Option<ServerAddress>,
    /// The token for a server that has the store, unless the command can read that server's own
    #[arg(long, global = true, env = "GRISTMILL_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// A file with that token: other users of this machine can read a command line, and not a private file
    #[arg(
        long,
        global = true,
        env = "GRISTMILL_TOKEN_FILE",
        value_name = "PATH",
        hide_env_values = true,
        conflicts_with = "token"
    )]
    token_file: Option<PathBuf>,
    /// Write one JSON document per line, for programs
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// How log lines on standard error look
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub(super) log_format: LogFormat,
    /// Log lines to keep, such as `debug` or `gristmill::runner=debug,warn`
    #[arg(long, global = true, env = "GRISTMILL_LOG", value_name = "FILTER")]
    pub(super) log: Option<String>,
    /// Log more; twice for everything
    #[arg(long, short, global = true, action = clap::ArgAction::Count, conflicts_with = "log")]
    pub(super) verbose: u8,
    /// Log errors only
    #[arg(long, short, global = true, conflicts_with_all = ["log", "verbose"])]
    pub(super) quiet: bool,
}

/// A topic as people write it: `topic` or `tenant/topic`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TopicName {
    tenant: Option<Name>,
    topic: Name,
}

impl FromStr for TopicName {
    type Err = <TopicId as FromStr>::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let TopicId { tenant, topic } = text.parse()?;
        Ok(Self { tenant: text.contains('/').then_some(tenant), topic })
    }
}

impl TopicName {
    /// The topic, with what --tenant says.
    ///
    /// # Errors
    /// They name different tenants.
    pub(super) fn of(&self, tenant: Option<&Name>) -> Result<TopicId, Usage> {
        let topic = self.topic.clone();
        match (&self.tenant, tenant) {
            (Some(written), Some(tenant)) if written != tenant => {
                Err(Usage(format!("the topic `{written}/{topic}` belongs to another tenant than --tenant {tenant}")))
            }
            (written, tenant) => Ok(TopicId { tenant: tenant_of(written.as_ref().or(tenant)), topic }),
        }
    }
}

/// The topic of a command.
#[derive(Debug, clap::Args)]
pub(super) struct TopicArg {
    /// The topic, or tenant/topic
    #[arg(value_name = "TOPIC")]
    topic: TopicName,
    /// The topic's tenant, unless it is written before the topic [default: default]
    #[arg(long, value_name = "NAME")]
    tenant: Option<Name>,
}

impl TopicArg {
    /// # Errors
    /// Two tenants are named.
    pub(super) fn id(&self) -> Result<TopicId, Usage> {
        self.topic.of(self.tenant.as_ref())
    }
}

/// The tenant, and the topic if one is named.
///
/// # Errors
/// Two tenants are named.
pub(super) fn whose(topic: Option<&TopicName>, tenant: Option<&Name>) -> Result<(Name, Option<Name>), Usage> {
    match topic {
        None => Ok((tenant_of(tenant), None)),
        Some(topic) => topic.of(tenant).map(|TopicId { tenant, topic }| (tenant, Some(topic))),
    }
}

/// The tenant that a command is about.
pub(super) fn tenant_of(named: Option<&Name>) -> Name {
    named.cloned().unwrap_or_else(Name::default_tenant)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    Text,
    Json,
}

impl Global {
    /// The manifest with the secrets of its topics, for commands that run handlers.
    pub(super) fn manifest(&self) -> anyhow::Result<Manifest> {
        self.manifest_with(Manifest::load)
    }

    /// The manifest of this folder, also where a server is named, with the secrets of its topics if all of them are here.
    pub(super) fn manifest_here(&self) -> anyhow::Result<Manifest> {
        let path = self.manifest.clone().unwrap_or_else(|| DEFAULT_MANIFEST.into());
        if !path.exists() {
            return Ok(Manifest::default_at(Path::new("")));
        }
        Ok(Manifest::load(&path).or_else(|_| Manifest::load_without_secrets(&path))?)
    }

    /// The manifest without secrets, for commands that run no handlers.
    pub(super) fn manifest_without_secrets(&self) -> anyhow::Result<Manifest> {
        self.manifest_with(Manifest::load_without_secrets)
    }

    fn manifest_with(&self, load: fn(&Path) -> Result<Manifest, ManifestError>) -> anyhow::Result<Manifest> {
        if let Some(path) = &self.manifest {
            named_well("--manifest (or GRISTMILL_MANIFEST)", &path.to_string_lossy())?;
        }
        let manifest = match &self.manifest {
            // It is that of another store.
            _ if self.names_server() => Manifest::default_at(Path::new("")),
            Some(path) => load(path)?,
            None if Path::new(DEFAULT_MANIFEST).exists() => load(Path::new(DEFAULT_MANIFEST))?,
            None => Manifest::default_at(Path::new("")),
        };
        Ok(match self.named_store()? {
            Some(address) => manifest.with_store(address)?,
            None => manifest,
        })
    }

    /// The store that the options name, if they do. A relative path is relative to the working directory.
    pub(super) fn named_store(&self) -> Result<Option<StoreAddress>, Usage> {
        // Not by clap: its message would show the password.
        let address = self.store.as_deref().map(|text| StoreAddress::parse(text, Path::new("")));
        address
            .transpose()
            .map_err(|bad| Usage(format!("--store (or GRISTMILL_STORE) is no address of a store: {bad}")))
    }

    /// The token to send to a server.
    ///
    /// # Errors
    /// The file cannot be read, or is empty, or an option has characters in it by mistake.
    pub(super) fn token(&self) -> anyhow::Result<Option<TokenText>> {
        let Some(path) = &self.token_file else {
            if let Some(token) = &self.token {
                named_well("--token (or GRISTMILL_TOKEN)", token)?;
            }
            return Ok(self.token.clone().map(TokenText::from));
        };
        named_well("--token-file (or GRISTMILL_TOKEN_FILE)", &path.to_string_lossy())?;
        let text = std::fs::read_to_string(path);
        let text = text.with_context(|| format!("failed to read the token in {}", path.display()))?;
        warn_if_exposed(path);
        let problem = match text.trim() {
            "" => "is empty: write the token into it",
            token if token.bytes().all(|byte| byte.is_ascii_graphic()) => return Ok(Some(token.to_owned().into())),
            _ => "has more in it than a token, which is one line of visible ASCII: leave out the rest",
        };
        Err(Usage(format!("the token file {} {problem}", path.display())).into())
    }

    /// Whether commands ask a server that the options name.
    pub(super) fn names_server(&self) -> bool {
        self.server.is_some()
    }

    /// Whether there is a manifest of the store; without one, it is not known which topics exist.
    pub(super) fn has_manifest(&self) -> bool {
        if self.names_server() {
            return false;
        }
        self.manifest.is_some() || Path::new(DEFAULT_MANIFEST).exists()
    }

    /// The store that the options or the manifest name.
    ///
    /// # Errors
    /// It is unavailable, or there is none yet.
    pub(super) async fn store(&self, manifest: &Manifest) -> anyhow::Result<Arc<dyn Produce>> {
        Ok(self.reach(manifest).await?.store)
    }

    /// The same with the way to it.
    pub(super) async fn reach(&self, manifest: &Manifest) -> anyhow::Result<Reached> {
        self.way(manifest)?.reach().await
    }

    /// The server that has the store: that through which it is reached, or of a Redis the one that listens where the manifest says.
    pub(super) async fn server(&self, manifest: &Manifest) -> anyhow::Result<Option<RemoteStore>> {
        let way = self.way(manifest)?;
        Ok(match way.reach().await?.server {
            None => way.find_server().await?,
            reached => reached,
        })
    }

    /// How to get to the store.
    pub(super) fn way(&self, manifest: &Manifest) -> anyhow::Result<Way> {
        Ok(Way::new(manifest, self.server.clone(), self.token()?))
    }

    /// Like [`Self::store`], but `None`, with a note to people, if there is no store yet.
    pub(super) async fn store_if_any(&self, manifest: &Manifest) -> anyhow::Result<Option<Arc<dyn Produce>>> {
        Ok(self.reach_if_any(manifest).await?.map(|reached| reached.store))
    }

    /// The same with the way to it.
    pub(super) async fn reach_if_any(&self, manifest: &Manifest) -> anyhow::Result<Option<Reached>> {
        match self.reach(manifest).await {
            Err(error) => {
                let Some(none) = error.downcast_ref::<NoStoreYet>() else { return Err(error) };
                if !self.json && !self.quiet {
                    screen::note(&format!("note: {none}"));
                }
                Ok(None)
            }
            reached => reached.map(Some),
        }
    }

    /// Says what a command has found or done: a document where JSON is wanted, else words, on standard error if it was nothing.
    pub(super) fn say(&self, document: &Value, is_done: bool, words: &str) -> anyhow::Result<()> {
        match (self.json, is_done) {
            (true, _) => screen::document(document),
            (false, true) => screen::line(words),
            (false, false) => {
                screen::note(words);
                Ok(())
            }
        }
    }

    /// Says what a command lists: a document for each where JSON is wanted, else a row of the table for each, or that there is `none`.
    pub(super) fn list<T: Serialize, R: IntoIterator<Item = String>>(
        &self,
        items: &[T],
        mut table: Table,
        row: impl Fn(&T) -> R,
        none: &str,
    ) -> anyhow::Result<()> {
        if self.json {
            return items.iter().try_for_each(|item| screen::document(&serde_json::to_value(item)?));
        }
        items.iter().for_each(|item| table.row(row(item)));
        if table.is_empty() {
            screen::note(none);
            return Ok(());
        }
        table.print()
    }

    /// The store, for a command that needs nothing else from the manifest.
    pub(super) async fn store_alone(&self) -> anyhow::Result<Arc<dyn Produce>> {
        self.store(&self.manifest_without_secrets()?).await
    }
}

/// Does not repeat the text: it may be a secret.
fn named_well(option: &str, text: &str) -> Result<(), Usage> {
    unseen(text).map_or(Ok(()), |problem| Err(Usage(format!("{option} cannot be right: {problem}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct TestCli {
        #[command(flatten)]
        global: Global,
    }

    #[test]
    fn a_token_file_has_one_token_or_is_refused_by_its_name() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().display().to_string();
        let TestCli { global } = <TestCli as clap::Parser>::parse_from(["gristmill", "--token-file", &path]);
        let read = |text: &str| {
            std::fs::write(file.path(), text).unwrap();
            global.token().map(|token| token.is_some()).map_err(|error| error.to_string())
        };
        assert_eq!(read(" gm_abc\r\n"), Ok(true));
        assert_eq!(read(" \n"), Err(format!("the token file {path} is empty: write the token into it")));
        for more in ["gm_abc\ngm_def\n", "token: gm_abc", "\u{feff}gm_abc"] {
            let said = read(more).unwrap_err();
            assert!(said.starts_with(&format!("the token file {path} has more in it than a token")), "{said}");
        }
    }

    #[test]
    fn a_tenant_may_be_named_once_or_twice_alike() {
        let both = |topic: &str, tenant: Option<&str>| {
            let (topic, tenant) = (topic.parse::<TopicName>().unwrap(), tenant.map(|tenant| tenant.parse().unwrap()));
            topic.of(tenant.as_ref()).map(|topic| topic.to_string()).map_err(|Usage(text)| text)
        };
        assert_eq!(both("a", None).as_deref(), Ok("a"));
        assert_eq!(both("a", Some("acme")).as_deref(), Ok("acme/a"));
        assert_eq!(both("acme/a", None).as_deref(), Ok("acme/a"));
        assert_eq!(both("acme/a", Some("acme")).as_deref(), Ok("acme/a"));
        let contradiction = both("acme/a", Some("other")).unwrap_err();
        assert_eq!(contradiction, "the topic `acme/a` belongs to another tenant than --tenant other");
        assert!(both("default/a", Some("acme")).is_err(), "also if it is the default one that is written");
    }
}

//! A manifest as a whole: from a file to values, or to the list of its mistakes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::de::DeTable;

use super::diagnostic::{Diagnostic, Source, Span};
use super::grants::Secrets;
use super::http::{self, HttpSettings};
use super::limits::TenantLimits;
use super::line_file::{self, LineFileSettings};
use super::lmstfy::{self, LmstfySettings};
use super::otel::{self, OtelSettings};
use super::page::{self, PageSettings};
use super::read::{Problems, Section};
use super::server::{self, HandlerSettings, Server};
use super::store::{self, StoreAddress, StoreSettings};
use super::{stores, topics};
use gristmill_core::job::{Name, TopicId};
use gristmill_core::topic::{Adapter, Capability, DeadPolicy, Topic, WrittenAs};
use gristmill_core::units;

/// How many mistakes are shown; if there are more, one of these causes them.
const SHOWN: usize = 20;

/// A validated manifest. Every path in it is relative to the manifest's folder, or absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// As errors name it; what is relative in it is relative to its folder.
    pub path: PathBuf,
    /// The file that a runner reads again when it changes or appears. None: the settings do not come from a file.
    pub file: Option<PathBuf>,
    /// `[server]`.
    pub server: Server,
    /// The primary store.
    pub store: StoreSettings,
    /// The other stores, by name. See [`HOME`](super::HOME).
    pub stores: BTreeMap<Name, StoreSettings>,
    /// Tenants that are placed in one of them, unless they have been moved since.
    pub placements: BTreeMap<Name, Name>,
    /// `[http]`.
    pub http: HttpSettings,
    /// `[lmstfy]`.
    pub lmstfy: LmstfySettings,
    /// `[page]`.
    pub page: PageSettings,
    /// None: no attempt is traced.
    pub otel: Option<OtelSettings>,
    /// None: no journal is kept.
    pub journal: Option<LineFileSettings>,
    /// None: no audit log is kept.
    pub audit: Option<LineFileSettings>,
    /// `[handlers]`.
    pub handlers: HandlerSettings,
    /// The topics that are written down. See [`Self::auto_topic`] for the others.
    pub topics: BTreeMap<TopicId, Topic>,
    /// The default tenant, and those that have a section.
    pub tenants: BTreeSet<Name>,
    /// Of the tenants that have some.
    pub limits: Arc<BTreeMap<Name, TenantLimits>>,
    pub(super) template: Topic,
    pub(super) source: Source,
    places: BTreeMap<TopicId, Span>,
    /// Where [journal] and [audit] name their paths.
    pub(super) log_places: [Option<Span>; 2],
    /// Where [handlers] names the folder.
    folder_at: Option<Span>,
}

/// Why there is no manifest.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum ManifestError {
    #[error("the manifest {} cannot be read; name another with --manifest", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the manifest {} is no text in UTF-8: {problem}", path.display())]
    NotUtf8 { path: PathBuf, problem: String },
    /// In the order of the text; at least one.
    #[error("{}", render(problems, false))]
    Invalid { problems: Vec<Diagnostic> },
}

impl Manifest {
    /// Reads and validates a manifest, and the secrets that it points at.
    ///
    /// # Errors
    /// The file cannot be read, or says something that makes no sense: then every mistake is listed.
    pub fn load(path: &Path) -> Result<Self, ManifestError> {
        Self::load_with(Secrets::Read, path)
    }

    /// Like [`Self::load`], but leaves every topic's secrets out: for programs that run no handlers and may not read them.
    ///
    /// # Errors
    /// Those of [`Self::load`].
    pub fn load_without_secrets(path: &Path) -> Result<Self, ManifestError> {
        Self::load_with(Secrets::Skip, path)
    }

    fn load_with(secrets: Secrets, path: &Path) -> Result<Self, ManifestError> {
        let manifest = Self::parse_with(secrets, &text_of(path)?, path)?;
        Ok(Self { file: Some(path.to_owned()), ..manifest })
    }

    /// Like [`Self::load`], of a text that errors call `path`: what is relative is relative to its folder.
    ///
    /// # Errors
    /// [`ManifestError::Invalid`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, ManifestError> {
        Self::parse_with(Secrets::Read, text, path)
    }

    fn parse_with(secrets: Secrets, text: &str, path: &Path) -> Result<Self, ManifestError> {
        let source = Source { path: path.into(), text: text.into() };
        let (table, syntax) = DeTable::parse_recoverable(&source.text);
        if !syntax.is_empty() {
            // What could be saved of a broken file would be misread: its other mistakes come next time.
            let shown = |error: &toml::de::Error| match (error.message().trim(), error.span()) {
                ("duplicate key", Some(key)) => {
                    let name = source.text.get(key.clone()).unwrap_or_default();
                    source
                        .complain(Some(key), format!("`{name}` is written twice"))
                        .help("keep one, with all that belongs to it")
                }
                (message, span) => source.complain(span, message),
            };
            return Err(ManifestError::Invalid { problems: syntax.iter().map(shown).collect() });
        }
        let problems = Problems::of(source.clone());
        let manifest = Self::read(table.get_ref(), secrets, &source, &problems);
        manifest.misplaced_logs().into_iter().for_each(|problem| problems.add(problem));
        let problems = problems.into_vec();
        if problems.is_empty() { Ok(manifest) } else { Err(ManifestError::Invalid { problems }) }
    }

    /// What holds until there is a manifest in the folder: every setting at its default, no topics but those that files make.
    pub fn default_at(folder: &Path) -> Self {
        let path = folder.join("gristmill.toml");
        Self {
            server: Server::default(),
            store: StoreSettings::default_at(folder),
            stores: BTreeMap::new(),
            placements: BTreeMap::new(),
            http: HttpSettings::default(),
            lmstfy: LmstfySettings::default(),
            page: PageSettings::default(),
            otel: None,
            journal: None,
            audit: None,
            handlers: HandlerSettings::default_at(folder),
            topics: BTreeMap::new(),
            tenants: BTreeSet::from([topics::default_tenant()]),
            limits: Arc::default(),
            template: topics::template(),
            source: Source { path: path.as_path().into(), text: "".into() },
            places: BTreeMap::new(),
            log_places: [None, None],
            folder_at: None,
            file: Some(path.clone()),
            path,
        }
    }

    fn read<'t>(table: &'t DeTable<'t>, secrets: Secrets, source: &Source, problems: &'t Problems) -> Self {
        let folder = source.path.parent().unwrap_or(Path::new(""));
        let mut root = Section::new("the manifest".into(), table, problems);
        let server = server::server(&mut root, folder);
        let store = store::store(&mut root, folder);
        let stores = stores::stores(&mut root, folder, &store);
        let http = http::http(&mut root, folder);
        let lmstfy = lmstfy::lmstfy(&mut root, folder, secrets);
        let page = page::page(&mut root);
        let otel = otel::otel(&mut root);
        let (journal, journal_at) = line_file::line_file(&mut root, "journal", folder).unzip();
        let (audit, audit_at) = line_file::line_file(&mut root, "audit", folder).unzip();
        let (handlers, folder_at) = server::handlers(&mut root, folder);
        let topics::Topics { topics, places, template, tenants, limits, placements, spread, stateful, .. } =
            topics::read(&mut root, folder, secrets);
        let placements = stores::placements(placements, &stores, problems);
        stores::check_spread(spread, &store, &stores, &placements, problems);
        stores::check_states(stateful, &stores, problems);
        root.finish();
        Self {
            path: source.path.to_path_buf(),
            file: None,
            server,
            store,
            stores,
            placements,
            http,
            lmstfy,
            page,
            otel,
            journal,
            audit,
            handlers,
            topics,
            tenants,
            limits: Arc::new(limits),
            template,
            source: source.clone(),
            places,
            log_places: [journal_at, audit_at],
            folder_at,
        }
    }

    /// The topic that a component makes by lying in the folder: its namesake in the default tenant, with `[defaults]`.
    pub fn auto_topic(&self, handler: &Name) -> Topic {
        let tenant = self.template.id.tenant.clone();
        let id = TopicId { tenant, topic: handler.clone() };
        Topic { id, handler: handler.clone(), ..self.template.clone() }
    }

    /// Which dead jobs a topic keeps that neither a section nor a component makes.
    pub fn dead_policy(&self) -> DeadPolicy {
        self.template.dead
    }

    /// Whether a component of this name makes a topic. It does not if a section names it: that section states what it may do, and a tenant's
    /// component is not for clients of the default tenant.
    pub fn makes_topic(&self, handler: &Name) -> bool {
        self.handlers.auto_topics && !self.named_handlers().any(|named| named == handler)
    }

    /// Whether the jobs of all tenants are in one file or on one server, so that all are unavailable together.
    pub fn keeps_tenants_together(&self) -> bool {
        let is_cluster =
            |address: &StoreAddress| matches!(address, StoreAddress::Redis(url) if url.contains("+cluster:"));
        self.stores.is_empty() && !is_cluster(&self.store.address)
    }

    /// The handlers that sections name.
    pub fn named_handlers(&self) -> impl Iterator<Item = &Name> {
        self.topics.values().filter(|topic| !topic.external).map(|topic| &topic.handler)
    }

    /// The topics whose jobs this handler does: those that name it, and the one that its file makes.
    pub fn topics_of(&self, handler: &Name) -> Vec<Topic> {
        let named = self.topics.values().filter(|topic| topic.handler == *handler && !topic.external).cloned();
        let auto = Some(self.auto_topic(handler));
        let made = auto.filter(|auto| self.makes_topic(handler) && !self.topics.contains_key(&auto.id));
        named.chain(made).collect()
    }

    /// Says that a topic's handler needs what the topic does not have, and which lines would change that.
    pub fn missing_grants(&self, topic: &Topic, lacking: &[Capability]) -> Diagnostic {
        let Topic { id, handler, .. } = topic;
        let imported = lacking.iter().filter(|capability| capability.called_by().is_none());
        let names: Vec<_> = imported.map(|capability| format!("`{capability}`")).collect();
        let grants = format!("topic `{id}` does not grant what its handler `{handler}` imports: {}", names.join(", "));
        let title = match lacking.iter().find_map(|capability| capability.called_by()) {
            None => grants,
            Some(export) => {
                let also = if names.is_empty() { String::new() } else { format!("; {grants}") };
                format!("topic `{id}` cannot call its handler `{handler}`, which exports `{export}`{also}")
            }
        };
        let lines = lines_that_grant(&topics::section_of(id), lacking);
        let condition = if names.is_empty() { "" } else { "if it may have that, " };
        let is_called_otherwise = names.len() < lacking.len() && topic.adapter != Adapter::default();
        let adapter = is_called_otherwise.then(|| topic.adapter.needs().adapter_name());
        let instead = adapter.map(|adapter| format!(" instead of `adapter = \"{adapter}\"`")).unwrap_or_default();
        let place = self.places.get(id).cloned();
        self.source
            .complain(place, title)
            .help(format!("{condition}say so in {}{instead}:{lines}", self.path.display()))
    }

    /// The lines that grant these to a topic, as TOML.
    pub fn lines_that_grant(topic: &TopicId, lacking: &[Capability]) -> String {
        lines_that_grant(&topics::section_of(topic), lacking)
    }

    /// The lines that grant these to a topic, in a sentence.
    pub fn grant_in_words(topic: &TopicId, lacking: &[Capability]) -> String {
        let section = topics::section_of(topic);
        let (mut own, mut below) = (Vec::new(), Vec::new());
        for capability in lacking {
            match capability.written() {
                WrittenAs::Switch => own.push(format!("`{capability} = true`")),
                WrittenAs::Line(line) => own.push(format!("`{line}`")),
                WrittenAs::Section(line) => below.push(format!("`{line}` in [{section}.{capability}]")),
            }
        }
        let own = (!own.is_empty()).then(|| format!("{} in [{section}]", own.join(", ")));
        format!("write {}", own.into_iter().chain(below).collect::<Vec<_>>().join(" and "))
    }

    /// The section of a topic, as TOML.
    pub fn section_of(topic: &TopicId) -> String {
        format!("[{}]", topics::section_of(topic))
    }

    /// Says that the handlers folder that the manifest names is not there.
    pub fn missing_folder(&self) -> Option<Diagnostic> {
        let folder = &self.handlers.folder;
        let default = HandlerSettings::default_at(self.path.parent().unwrap_or(Path::new(""))).folder;
        let title = format!("there is no folder {}, which [handlers] names", folder.display());
        let is_missing = *folder != default && !folder.exists();
        is_missing.then(|| {
            self.source.complain(self.folder_at.clone(), title).help("make it, or put `folder` in [handlers] right")
        })
    }

    /// Says why a server could not use the files of [http.tls].
    pub fn unusable_certificate(&self, problem: &str) -> Diagnostic {
        let help = "`certificate` and `key` in it must name PEM files that the server's user may read";
        self.source.complain(None, format!("failed to read [http.tls]: {problem}")).help(help)
    }

    /// Says that a topic's handler is not among the `available` ones, and points at where the topic names it.
    pub fn missing_handler(&self, topic: &TopicId, available: &[Name]) -> Diagnostic {
        let handler = self.topics.get(topic).map_or(&topic.topic, |topic| &topic.handler);
        let folder = self.handlers.folder.display();
        let title = format!("topic `{topic}` has no handler: there is no {folder}/{handler}.wasm that can be used");
        let problem = self.source.complain(self.places.get(topic).cloned(), title);
        let names: Vec<_> = available.iter().map(Name::as_str).collect();
        problem.suggest(handler.as_str(), names.iter().copied(), || match names.as_slice() {
            [] => "the folder has no usable component at all".to_owned(),
            names => format!("there are: {}", names.join(", ")),
        })
    }
}

/// The lines that grant these, below the section of their topic.
fn lines_that_grant(section: &str, lacking: &[Capability]) -> String {
    let (mut switches, mut sections) = (String::new(), String::new());
    for capability in lacking {
        match capability.written() {
            WrittenAs::Switch => switches += &format!("\n  {capability} = true"),
            WrittenAs::Line(line) => switches += &format!("\n  {line}"),
            WrittenAs::Section(line) => sections += &format!("\n  [{section}.{capability}]\n  {line}"),
        }
    }
    if switches.is_empty() { sections } else { format!("\n  [{section}]{switches}{sections}") }
}

fn text_of(path: &Path) -> Result<String, ManifestError> {
    let bytes = std::fs::read(path).map_err(|source| ManifestError::Read { path: path.into(), source })?;
    utf8(bytes).map_err(|problem| ManifestError::NotUtf8 { path: path.into(), problem })
}

/// The text of a manifest.
///
/// # Errors
/// In words: where the first byte is that is none of a text in UTF-8.
pub fn utf8(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let line = 1 + error.as_bytes().iter().take(good).filter(|byte| **byte == b'\n').count();
        format!("the first wrong byte is in line {line}: save the file as UTF-8")
    })
}

impl ManifestError {
    /// The whole message; with terminal colours if `colour`.
    pub fn render(&self, colour: bool) -> String {
        match self {
            Self::Read { .. } | Self::NotUtf8 { .. } => self.to_string(),
            Self::Invalid { problems } => render(problems, colour),
        }
    }

    /// What is wrong, each with its place in the file. Empty if the file could not be read.
    pub fn problems(&self) -> &[Diagnostic] {
        match self {
            Self::Read { .. } | Self::NotUtf8 { .. } => &[],
            Self::Invalid { problems } => problems,
        }
    }
}

fn render(problems: &[Diagnostic], colour: bool) -> String {
    let mut parts: Vec<_> = problems.iter().take(SHOWN).map(|problem| problem.render(colour)).collect();
    let path = problems.first().map(|problem| problem.path().display().to_string()).unwrap_or_default();
    parts.push(match problems.len() {
        count if count > SHOWN => format!("the manifest {path} has {count} problems; the first {SHOWN} are shown"),
        count => format!("the manifest {path} has {}", units::counted(count, "problem", "problems")),
    });
    parts.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_byte_that_is_not_utf_8_is_named_by_its_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let utf_16: Vec<u8> = "\u{feff}[topics.a]".encode_utf16().flat_map(u16::to_le_bytes).collect();
        for (bytes, line) in [(b"[topics.a]\n# gr\xf6\xdfer\n".to_vec(), 2), (utf_16, 1)] {
            std::fs::write(file.path(), bytes).unwrap();
            let said = Manifest::load(file.path()).unwrap_err().to_string();
            let words = format!("is no text in UTF-8: the first wrong byte is in line {line}: save the file as UTF-8");
            assert!(said.ends_with(&words), "{said}");
        }
    }

    #[test]
    fn a_grant_that_is_a_section_is_written_below_its_own_title() {
        let words = |lacking: &[Capability]| Manifest::grant_in_words(&"mail".parse().unwrap(), lacking);
        let http = "`allow = [\"the.host.it.asks\"]` in [topics.mail.http]";
        assert_eq!(words(&[Capability::Http]), format!("write {http}"));
        let both = "write `clock = true`, `random = true` in [topics.mail] and ";
        assert_eq!(words(&[Capability::Clock, Capability::Http, Capability::Random]), format!("{both}{http}"));
    }
}

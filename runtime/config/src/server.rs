//! The sections about the runner itself: `[server]` and `[handlers]`.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::Spanned;

use super::diagnostic::Span;
use super::ranges;
use super::read::Section;

/// `[server]`: this runner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Attempts at once in this runner, over all topics. 1 to 10,000.
    pub concurrency: u32,
    /// Threads that run guests.
    pub threads: usize,
    /// How long running attempts may go on once the runner shuts down.
    pub shutdown_grace: Duration,
    /// How long the bill of a day is kept.
    pub bill_retention: Duration,
    /// Where compiled components are kept; none: wherever the command line keeps caches.
    pub cache: Option<PathBuf>,
}

/// `[handlers]`: the folder of components, and how its files are compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandlerSettings {
    /// The folder of the components.
    pub folder: PathBuf,
    /// Whether a component whose name no topic has makes a topic of that name, in the default tenant.
    pub auto_topics: bool,
    /// What happens to a new job of a topic that nothing makes one.
    pub unknown_topics: UnknownTopics,
    /// How often the folder is read even without an event of a change.
    pub rescan: Duration,
    /// Bytes of a component's file.
    pub component_bytes: u64,
    /// How long a component may take to compile.
    pub compile_timeout: Duration,
    /// Bytes of address space that a compiler may use.
    pub compile_memory_bytes: u64,
}

/// What happens to a new job of a topic that has no section in the manifest, no handler and no pull worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UnknownTopics {
    /// It is stored, and its producer gets a warning.
    #[default]
    Warn,
    /// It is refused, and its producer learns the remedy.
    Refuse,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            concurrency: 256,
            threads: std::thread::available_parallelism().map_or(1, NonZero::get),
            shutdown_grace: Duration::from_secs(10),
            bill_retention: Duration::from_secs(400 * 24 * 3600),
            cache: None,
        }
    }
}

impl HandlerSettings {
    pub(super) fn default_at(folder: &Path) -> Self {
        Self {
            folder: folder.join("handlers"),
            auto_topics: true,
            unknown_topics: UnknownTopics::default(),
            rescan: Duration::from_secs(10),
            component_bytes: 64 << 20,
            compile_timeout: Duration::from_secs(60),
            compile_memory_bytes: 4 << 30,
        }
    }
}

/// Paths are relative to `folder`, the manifest's.
pub(super) fn server(root: &mut Section<'_>, folder: &Path) -> Server {
    let mut server = Server::default();
    if let Some(mut section) = root.section("server") {
        section.quantity(&ranges::SERVER_CONCURRENCY, &mut server.concurrency);
        section.quantity(&ranges::THREADS, &mut server.threads);
        section.quantity(&ranges::SHUTDOWN_GRACE, &mut server.shutdown_grace);
        section.quantity(&ranges::BILL_RETENTION, &mut server.bill_retention);
        server.cache = section.path("cache").map(|path| folder.join(path));
        section.finish();
    }
    server
}

/// With the place of the folder's name, if the section has it.
pub(super) fn handlers(root: &mut Section<'_>, folder: &Path) -> (HandlerSettings, Option<Span>) {
    let mut handlers = HandlerSettings::default_at(folder);
    let mut folder_at = None;
    if let Some(mut section) = root.section("handlers") {
        if let Some(path) = section.path("folder") {
            handlers.folder = folder.join(path);
            folder_at = section.value("folder").map(Spanned::span);
        }
        section.boolean("auto-topics", &mut handlers.auto_topics);
        let choices = [("warn", UnknownTopics::Warn), ("refuse", UnknownTopics::Refuse)];
        section.choice("unknown-topics", &choices, &mut handlers.unknown_topics);
        section.quantity(&ranges::RESCAN, &mut handlers.rescan);
        section.quantity(&ranges::COMPONENT_LIMIT, &mut handlers.component_bytes);
        section.quantity(&ranges::COMPILE_TIMEOUT, &mut handlers.compile_timeout);
        section.quantity(&ranges::COMPILE_MEMORY, &mut handlers.compile_memory_bytes);
        section.finish();
    }
    (handlers, folder_at)
}

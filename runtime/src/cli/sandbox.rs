//! A sandbox for a command: from the manifest's settings, with its cache where the user keeps caches.

use std::path::PathBuf;

use anyhow::Context;

use super::exit::Usage;
use gristmill_config::Manifest;
use gristmill_sandbox::{CompilerProcess, CompilerSettings, Sandbox, SandboxSettings};

/// Settings for `concurrency` attempts at once. The compiler is a child process of this program.
///
/// # Errors
/// No directory for caches is set, or this program cannot be found.
pub(super) fn settings(manifest: &Manifest, concurrency: u32) -> anyhow::Result<SandboxSettings> {
    let handlers = &manifest.handlers;
    let program =
        std::env::current_exe().context("failed to find this program's own file, which is the compiler too")?;
    let cache = match &manifest.server.cache {
        Some(cache) => cache.clone(),
        None => user_cache(|name| std::env::var_os(name).map(PathBuf::from))?,
    };
    Ok(SandboxSettings {
        concurrency,
        cache,
        compiler: CompilerSettings {
            process: CompilerProcess::Child { program, memory_bytes: handlers.compile_memory_bytes },
            timeout: handlers.compile_timeout,
            component_bytes: handlers.component_bytes,
        },
    })
}

/// A sandbox for one attempt at a time.
pub(super) fn small(manifest: &Manifest) -> anyhow::Result<Sandbox> {
    Sandbox::new(&settings(manifest, 1)?).context("failed to set up the sandbox")
}

/// `$XDG_CACHE_HOME/gristmill`, or `~/.cache/gristmill` (XDG Base Directory Specification 0.8; a relative path counts
/// as unset).
fn user_cache(variable: impl Fn(&str) -> Option<PathBuf>) -> Result<PathBuf, Usage> {
    let absolute = |name| variable(name).filter(|path| path.is_absolute());
    let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    caches.map(|caches| caches.join("gristmill")).ok_or_else(|| {
        Usage(
            "no directory is set for compiled components: set `cache` in [server], or the variable XDG_CACHE_HOME"
                .into(),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_where_the_user_keeps_caches() {
        let cache = |xdg: Option<&str>, home: Option<&str>| {
            let variables = [("XDG_CACHE_HOME", xdg), ("HOME", home)];
            user_cache(|name| variables.iter().find(|(known, _)| *known == name)?.1.map(PathBuf::from)).ok()
        };
        assert_eq!(cache(Some("/c"), Some("/h")), Some("/c/gristmill".into()));
        assert_eq!(cache(Some("c"), Some("/h")), Some("/h/.cache/gristmill".into()));
        assert_eq!(cache(None, Some("/h")), Some("/h/.cache/gristmill".into()));
        assert_eq!(cache(None, None), None);
    }
}

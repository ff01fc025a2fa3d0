//! `gristmill version`: what this program was built from.

use serde_json::json;

use super::exit::Exit;
use super::global::Global;
use super::screen;

/// Its compiled components and fuel costs are those of this version. A test compares it with the workspace's.
const WASMTIME: &str = "48.0.8";
/// Set by `scripts/release.sh`, which builds from a clean clone only.
const COMMIT: Option<&str> = option_env!("GRISTMILL_COMMIT");

/// Show the version, what it was built from, and with which features
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  gristmill version\n  gristmill version --json")]
pub(super) struct Args {}

pub(super) fn run(global: &Global, _: Args) -> anyhow::Result<Exit> {
    let (version, target) = (env!("CARGO_PKG_VERSION"), target());
    if global.json {
        let document = json!({
            "version": version, "commit": COMMIT, "target": target, "wasmtime": WASMTIME, "features": features(),
        });
        return screen::document(&document).map(|()| Exit::Done);
    }
    let commit = COMMIT.unwrap_or("unknown: this is no release");
    let features = features().join(", ");
    screen::line(&format!(
        "gristmill {version}\ncommit: {commit}\ntarget: {target}\nwasmtime: {WASMTIME}\nfeatures: {features}"
    ))?;
    Ok(Exit::Done)
}

/// Short for the target's triple: what distinguishes releases.
fn target() -> String {
    let libc = if cfg!(target_env = "musl") {
        "-musl"
    } else if cfg!(target_env = "gnu") {
        "-gnu"
    } else {
        ""
    };
    format!("{}-{}{libc}", std::env::consts::ARCH, std::env::consts::OS)
}

fn features() -> Vec<&'static str> {
    let all = [
        ("embedded", cfg!(feature = "embedded")),
        ("otel", cfg!(feature = "otel")),
        ("redis", cfg!(feature = "redis")),
        ("sharding", cfg!(feature = "sharding")),
        ("top", cfg!(feature = "top")),
    ];
    all.into_iter().filter_map(|(name, is_in)| is_in.then_some(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_wasmtime_is_that_of_the_workspace() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
        let workspace = std::fs::read_to_string(root).unwrap();
        assert!(workspace.contains(&format!("wasmtime = {{ version = \"={WASMTIME}\"")));
    }
}

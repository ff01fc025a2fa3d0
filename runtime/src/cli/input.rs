//! A job's body from the command line: an option, a file, or what is piped in.

use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::exit::Usage;
use gristmill_core::job::Payload;

/// The most that any topic takes; more is read by mistake.
const BODY_BYTES_MAX: u64 = 64 << 20;

#[derive(Debug, clap::Args)]
pub(super) struct Body {
    /// The job's body
    #[arg(long, short, value_name = "TEXT", conflicts_with = "file")]
    data: Option<String>,
    /// Read the job's body from a file; `-` is standard input, which is also read if neither option is given and it is no
    /// terminal
    #[arg(long, short, value_name = "PATH")]
    file: Option<PathBuf>,
    /// The body's media type, such as application/json
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
}

impl Body {
    /// Whether an option says what it is.
    pub(super) fn is_named(&self) -> bool {
        self.data.is_some() || self.file.is_some()
    }

    /// Blocks until all of it is there.
    pub(super) fn read(self) -> anyhow::Result<Payload> {
        let data = match (self.data, self.file) {
            (Some(text), _) => text.into_bytes(),
            (None, Some(path)) if path != Path::new("-") => {
                let file = std::fs::File::open(&path).with_context(|| format!("failed to open {}", path.display()))?;
                read_all(file, &path.display().to_string())?
            }
            (None, None) if io::stdin().is_terminal() => Vec::new(),
            (None, _) => read_all(io::stdin().lock(), "standard input")?,
        };
        Ok(Payload { data, content_type: self.content_type })
    }
}

fn read_all(from: impl Read, name: &str) -> anyhow::Result<Vec<u8>> {
    let mut data = Vec::new();
    from.take(BODY_BYTES_MAX + 1).read_to_end(&mut data).with_context(|| format!("failed to read {name}"))?;
    if data.len() as u64 > BODY_BYTES_MAX {
        return Err(Usage(format!("{name} is larger than 64MiB, the most that a job's body may have")).into());
    }
    Ok(data)
}

/// Reads `name=value`; the value may be empty and may hold more `=`.
pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err("write it as name=value".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_split_at_the_first_equals_sign() {
        assert_eq!(pair("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert_eq!(pair("a="), Ok(("a".into(), String::new())));
        assert!(pair("a").is_err() && pair("=b").is_err());
    }

    #[test]
    fn a_body_beyond_the_limit_is_refused() {
        assert!(read_all(io::repeat(0).take(BODY_BYTES_MAX), "x").is_ok());
        assert!(read_all(io::repeat(0), "x").is_err());
    }
}

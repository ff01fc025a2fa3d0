//! What is known of a component without its code. It is kept beside the artifact, so that a start reads a small file and maps nothing.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::core_module;
use super::host::allowed_imports;
use super::validate::Shape;

/// To be raised when components have to pass other checks than before, or when facts have another meaning.
const CHECKS: &str = "3";

/// SHA-256 over what decides which imports and exports this program accepts. The engine is part of an artifact's key.
static HOST: LazyLock<String> = LazyLock::new(|| {
    let mut hasher = Sha256::new();
    let parts = [env!("CARGO_PKG_VERSION"), CHECKS, &allowed_imports()].map(|part| hex::encode(Sha256::digest(part)));
    parts.iter().for_each(|part| hasher.update(part));
    core_module::ingredients().iter().for_each(|ingredient| hasher.update(ingredient));
    hex::encode(hasher.finalize())
});

/// Everything that is said of a component before it runs. Facts are written once the component has passed every check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Facts {
    pub(super) shape: Shape,
    pub(super) imports: Vec<String>,
    pub(super) exports: Vec<String>,
    /// None if the component brings in core modules from outside.
    pub(super) needs: Option<Needs>,
    pub(super) has_self_test: bool,
    /// It started, and its self-test passed if it has one.
    pub(super) passed_trials: bool,
}

/// What an instance takes from the pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Needs {
    /// Linear memories.
    pub memories: u32,
    /// Bytes of the largest memory when it begins.
    pub memory_bytes: u64,
    /// Tables.
    pub tables: u32,
}

/// Facts as they are stored, with the program that found them: another one checks the component again.
#[derive(Serialize, Deserialize)]
struct StoredFacts<F> {
    host: String,
    facts: F,
}

impl Facts {
    /// What [`Self::to_bytes`] of this program, or of one that checks the same, made; `None` of anything else.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let stored: StoredFacts<Self> = serde_json::from_slice(bytes).ok()?;
        (stored.host == *HOST).then_some(stored.facts)
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        // Fails for maps with keys that are no strings, of which there are none.
        serde_json::to_vec(&StoredFacts { host: HOST.clone(), facts: self }).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::Kind;

    #[test]
    fn facts_of_another_program_are_not_taken() {
        let facts = Facts {
            shape: Shape { kind: Kind::CoreModule, is_composed: true, data_bytes: 4 },
            imports: vec!["a".into()],
            exports: vec![],
            needs: Some(Needs { memories: 1, memory_bytes: 2, tables: 3 }),
            has_self_test: true,
            passed_trials: false,
        };
        let bytes = facts.to_bytes();
        assert_eq!(Facts::parse(&bytes), Some(facts));
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(Facts::parse(text.replace(HOST.as_str(), "another").as_bytes()), None);
        assert_eq!(Facts::parse(b"{}"), None);
    }
}

//! Which imports need a grant. All others are harmless: they are linked to an empty world, whatever a toolchain drags in.

use gristmill_core::topic::Capability;

/// What a topic must grant before a component with these imports runs there; in order, each once.
pub(crate) fn needed(imports: &[String]) -> Vec<Capability> {
    let mut needed: Vec<_> = imports.iter().filter_map(|import| of(import)).collect();
    needed.sort_unstable();
    needed.dedup();
    needed
}

fn of(import: &str) -> Option<Capability> {
    let name = import.split('@').next().unwrap_or(import);
    match name {
        "gristmill:job/http" => Some(Capability::Http),
        "wasi:random/random" | "wasi:random/insecure" => Some(Capability::Random),
        // Seeds of hash tables (`wasi:random/insecure-seed`) are asked for by every other program, and tell nothing.
        _ if name.starts_with("wasi:clocks/") => Some(Capability::Clock),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_random_numbers_and_requests_need_a_grant_and_nothing_else_does() {
        let imports = [
            "wasi:random/random@0.2.9",
            "wasi:clocks/wall-clock@0.2.0",
            "wasi:clocks/monotonic-clock@0.2.0",
            "wasi:random/insecure-seed@0.2.0",
            "wasi:cli/environment@0.2.6",
            "wasi:sockets/tcp@0.2.0",
            "gristmill:job/config@0.1.0",
        ];
        let imports = imports.map(str::to_owned);
        assert_eq!(needed(&imports), [Capability::Clock, Capability::Random]);
        assert_eq!(needed(&["gristmill:job/http@0.1.0".to_owned()]), [Capability::Http]);
        assert!(needed(&imports[3..]).is_empty());
    }
}

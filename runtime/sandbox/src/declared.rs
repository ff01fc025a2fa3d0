//! The imports that a component's file declares. Nothing is compiled.

use wasmparser::{BinaryReaderError, Parser, Payload};

use gristmill_core::topic::Capability;

/// What a topic must grant before this component runs there. Of a file that is broken, or a core module, whose imports are
/// not yet those of the component that it will be made: nothing.
pub fn declared_needs(wasm: &[u8]) -> Vec<Capability> {
    Capability::needed(&imports(wasm).unwrap_or_default())
}

/// Of the outermost component; those of components in it are its own business.
fn imports(wasm: &[u8]) -> Result<Vec<String>, BinaryReaderError> {
    let (mut imports, mut depth) = (Vec::new(), 0_u32);
    for payload in Parser::new(0).parse_all(wasm) {
        match payload? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    imports.push(import?.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    Ok(imports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_outermost_imports_count() -> Result<(), wat::Error> {
        let wasm = wat::parse_str(
            r#"(component
                 (import "wasi:clocks/wall-clock@0.2.0" (instance))
                 (component (import "wasi:random/random@0.2.0" (instance)))
                 (core module)
                 (import "gristmill:job/http@0.1.0" (instance)))"#,
        )?;
        assert_eq!(declared_needs(&wasm), [Capability::Clock, Capability::Http]);
        assert!(declared_needs(&wasm[..wasm.len() - 1]).is_empty(), "a broken file");
        assert!(declared_needs(&wat::parse_str("(module)")?).is_empty());
        Ok(())
    }
}

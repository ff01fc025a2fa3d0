//! The imports and exports that a component's file declares. Nothing is compiled.

use wasmparser::{BinaryReaderError, Parser, Payload};

use gristmill_core::topic::Demands;

/// What this component asks of a topic. Of a file that is broken, or a core module, whose imports are not yet those of the
/// component that it will be made: nothing.
pub fn declared_demands(wasm: &[u8]) -> Demands {
    demands(wasm).unwrap_or_default()
}

/// Of the outermost component; those of components in it are its own business.
fn demands(wasm: &[u8]) -> Result<Demands, BinaryReaderError> {
    let (mut imports, mut exports, mut depth) = (Vec::new(), Vec::new(), 0_u32);
    for payload in Parser::new(0).parse_all(wasm) {
        match payload? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    imports.push(import?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    exports.push(export?.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    Ok(Demands::of(&imports, &exports))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_core::topic::Capability;

    #[test]
    fn only_the_outermost_imports_and_exports_count() -> Result<(), wat::Error> {
        let wasm = wat::parse_str(
            r#"(component
                 (import "wasi:clocks/wall-clock@0.2.0" (instance))
                 (component (import "wasi:random/random@0.2.0" (instance)))
                 (core module)
                 (import "gristmill:job/http@0.1.0" (instance $http))
                 (export "wasi:cli/run@0.2.0" (instance $http)))"#,
        )?;
        let demands = declared_demands(&wasm);
        assert_eq!(demands.grants, [Capability::Clock, Capability::Http]);
        assert_eq!(demands.adapters, [Capability::CommandAdapter]);
        assert_eq!(declared_demands(&wasm[..wasm.len() - 1]), Demands::default(), "a broken file");
        assert_eq!(declared_demands(&wat::parse_str("(module)")?), Demands::default());
        Ok(())
    }
}

//! Checks a file before it is compiled, and says what is wrong with it in words that help its author.

use serde::{Deserialize, Serialize};
use wasmparser::{BinaryReaderError, CanonicalFunction, ComponentExternalKind, Parser, Payload};
use wasmtime::{Engine, Precompiled};

use super::core_module::ModuleSigns;
use super::direct;
use super::engine::MEMORY_SLOT_BYTES;
use super::error::LoadError;

/// More than CPython or SpiderMonkey has, and bearable for the compiler.
const FUNCTIONS_MAX: u64 = 200_000;
/// The largest interpreter loops that compilers make have some 100 KiB; the compiler's memory grows faster than this.
const BODY_BYTES_MAX: u64 = 1 << 20;
const DATA_SEGMENTS_MAX: u64 = 100_000;
const NESTED_MAX: u64 = 1_000;
const PAGE_BYTES: u64 = 64 << 10;

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A component, which runs as it is.
    Component,
    /// Made into a component when it is loaded.
    CoreModule,
}

/// What a file is, and what it is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Shape {
    pub(super) kind: Kind,
    /// There are components with code inside, which may pass values to each other.
    pub(super) is_composed: bool,
    /// Bytes of data that its memories begin with.
    pub(super) data_bytes: u64,
}

/// Passes a file that looks like a component of bearable size, or like a core module that can be made into one. Reads
/// every byte once; compiles and runs nothing.
pub(super) fn validate(wasm: &[u8], component_bytes: u64) -> Result<Shape, LoadError> {
    check_size(wasm.len() as u64, component_bytes)?;
    let kind = kind(wasm)?;
    let mut counts = Counts::default();
    let mut signs = ModuleSigns::default();
    let mut nesting = Nesting::default();
    for payload in Parser::new(0).parse_all(wasm) {
        let payload = payload.map_err(|error| nesting.trailing(wasm).unwrap_or_else(|| unreadable(&error, wasm)))?;
        if let Payload::UnknownSection { id, range, .. } = &payload {
            if let Some(trailing) = nesting.trailing(wasm) {
                return Err(trailing);
            }
            return Err(LoadError::Malformed { offset: range.start as u64, problem: format!("unknown section {id}") });
        }
        if nesting.exports_main(&payload) {
            let problem = format!(
                "it exports a core module `{}`, which is a name of the runner's: rename the export",
                direct::MAIN
            );
            return Err(LoadError::Exports { problem });
        }
        counts.add(&payload).map_err(|error| unreadable(&error, wasm))?;
        counts.check()?;
        signs.add(&payload);
        nesting.add(&payload);
    }
    if kind == Kind::CoreModule && !signs.is_callable() {
        return Err(LoadError::CoreModule);
    }
    Ok(Shape { kind, is_composed: nesting.is_composed, data_bytes: counts.data_bytes })
}

pub(super) fn check_size(bytes: u64, limit: u64) -> Result<(), LoadError> {
    if bytes > limit { Err(LoadError::TooLarge { bytes, limit }) } else { Ok(()) }
}

/// What a file is, by its first bytes.
pub(super) fn kind(wasm: &[u8]) -> Result<Kind, LoadError> {
    if wasm.is_empty() {
        Err(LoadError::Empty)
    } else if Parser::is_component(wasm) {
        Ok(Kind::Component)
    } else if Parser::is_core_wasm(wasm) {
        Ok(Kind::CoreModule)
    } else if matches!(Engine::detect_precompiled(wasm), Some(Precompiled::Component | Precompiled::Module)) {
        Err(LoadError::Precompiled)
    } else if is_text(wasm) {
        Err(LoadError::Text)
    } else if b"\0asm".starts_with(wasm.get(..4).unwrap_or(wasm)) && wasm.len() < 8 {
        Err(LoadError::Truncated { bytes: wasm.len() as u64 })
    } else {
        Err(LoadError::NotWasm)
    }
}

/// WebAssembly text begins with `(`, perhaps after comments.
fn is_text(wasm: &[u8]) -> bool {
    let text = wasm.trim_ascii_start();
    text.starts_with(b"(component")
        || text.starts_with(b"(module")
        || text.starts_with(b";;")
        || text.starts_with(b"(;")
}

fn unreadable(error: &BinaryReaderError, wasm: &[u8]) -> LoadError {
    // The reader has no other sign than its message that it would have read on.
    if error.message().contains("unexpected end") {
        return LoadError::Truncated { bytes: wasm.len() as u64 };
    }
    LoadError::Malformed { offset: error.offset() as u64, problem: error.message().to_owned() }
}

/// Where the reader is in a component.
#[derive(Default)]
struct Nesting {
    /// Components and modules that have begun and not ended.
    depth: usize,
    is_composed: bool,
    /// Where the last section ends that is not inside of another.
    end: usize,
    /// What has to be there is there: exports, or the code of a module.
    is_whole: bool,
}

impl Nesting {
    fn add(&mut self, payload: &Payload<'_>) {
        if let Some((_, range)) = payload.as_section().filter(|_| self.depth == 1) {
            self.end = range.end;
            self.is_whole |= matches!(payload, Payload::ComponentExportSection(_) | Payload::CodeSectionStart { .. });
        }
        match payload {
            Payload::Version { .. } => self.depth += 1,
            Payload::End(_) => self.depth = self.depth.saturating_sub(1),
            Payload::ComponentCanonicalSection(functions) if self.depth > 1 => {
                let lifts = |function| matches!(function, CanonicalFunction::Lift { .. });
                self.is_composed |= functions.clone().into_iter().flatten().any(lifts);
            }
            _ => {}
        }
    }
}

impl Nesting {
    /// A module by the name that ours has in an artifact.
    fn exports_main(&self, payload: &Payload<'_>) -> bool {
        let Payload::ComponentExportSection(exports) = payload else { return false };
        let mut exports = exports.clone().into_iter().flatten();
        self.depth == 1
            && exports.any(|export| export.kind == ComponentExternalKind::Module && export.name.name == direct::MAIN)
    }

    /// What follows a whole component and cannot be a section that was cut off: blanks, zeros, text, or another component.
    fn trailing(&self, wasm: &[u8]) -> Option<LoadError> {
        let rest = wasm.get(self.end..).filter(|rest| self.is_whole && !rest.is_empty())?;
        let is_blank = rest.iter().all(|byte| byte.is_ascii_whitespace() || matches!(byte, 0 | 0x1a));
        let is_text = rest.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
        let is_none = is_blank || is_text || rest.starts_with(b"\0asm");
        is_none.then_some(LoadError::Trailing { end: self.end as u64, extra: rest.len() as u64 })
    }
}

/// What the compiler's work grows with.
#[derive(Default)]
struct Counts {
    functions: u64,
    largest_body: u64,
    data_segments: u64,
    data_bytes: u64,
    nested: u64,
    largest_memory: u64,
}

impl Counts {
    fn add(&mut self, payload: &Payload<'_>) -> Result<(), BinaryReaderError> {
        match payload {
            Payload::FunctionSection(functions) => self.functions += u64::from(functions.count()),
            Payload::CodeSectionEntry(body) => self.largest_body = self.largest_body.max(body.range().len() as u64),
            Payload::DataSection(data) => {
                self.data_segments += u64::from(data.count());
                self.data_bytes += data.range().len() as u64;
            }
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => self.nested += 1,
            Payload::MemorySection(memories) => {
                for memory in memories.clone() {
                    self.largest_memory = self.largest_memory.max(memory?.initial.saturating_mul(PAGE_BYTES));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn check(&self) -> Result<(), LoadError> {
        let limits = [
            ("functions", self.functions, FUNCTIONS_MAX),
            ("bytes in one function", self.largest_body, BODY_BYTES_MAX),
            ("data segments", self.data_segments, DATA_SEGMENTS_MAX),
            ("nested modules and components", self.nested, NESTED_MAX),
            ("bytes of memory to begin with", self.largest_memory, MEMORY_SLOT_BYTES),
        ];
        match limits.into_iter().find(|(_, count, limit)| count > limit) {
            Some((what, count, limit)) => Err(LoadError::TooComplex { what, count, limit }),
            None => Ok(()),
        }
    }
}

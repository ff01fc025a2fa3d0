//! Core modules whose toolchain knows no components (Go, C, Zig, AssemblyScript): made into one as they are loaded.
//!
//! A module is taken for a handler if it carries a component type of its own, or exports `handle` by the name that the
//! canonical ABI gives it; one that exports `_start` instead is a program of WASI preview 1. What it imports of WASI preview 1 is met by an adapter of ours, because the standard one
//! fails under Go's allocator, and because ours needs nothing that a handler would have to be granted but random numbers.

use anyhow::Error;
use wasmparser::{Export, Parser, Payload};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{Resolve, WorldId};

const CONTRACT: &str = include_str!("../../wit/job.wit");
/// `preview1.wat`, which the build script translates.
const ADAPTER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/preview1.wasm"));
const ADAPTER_WIT: &str = include_str!("preview1.wit");

const PREVIEW1: &str = "wasi_snapshot_preview1";
/// What wit-bindgen and its like call the custom sections that say what a core module will be as a component.
const TYPE_SECTION: &str = "component-type";
pub(super) const HANDLE: &str = "gristmill:job/handler@0.1.0#handle";
pub(super) const SELF_TEST: &str = "gristmill:job/self-test@0.1.0#check";

/// The name by which preview 1 starts a program.
const START: &str = "_start";

/// The signs by which a core module that can become a component is recognised.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct ModuleSigns {
    /// It carries its component type.
    typed: bool,
    handle: bool,
    self_test: bool,
    start: bool,
}

impl ModuleSigns {
    /// To be called with every payload of the module.
    pub(super) fn add(&mut self, payload: &Payload<'_>) {
        match payload {
            Payload::CustomSection(section) => self.typed |= section.name().starts_with(TYPE_SECTION),
            Payload::ExportSection(exports) => {
                for Export { name, .. } in exports.clone().into_iter().flatten() {
                    self.handle |= name == HANDLE;
                    self.self_test |= name == SELF_TEST;
                    self.start |= name == START;
                }
            }
            _ => {}
        }
    }

    fn of(module: &[u8]) -> Self {
        let mut signs = Self::default();
        // What cannot be read, the encoder will name.
        Parser::new(0).parse_all(module).map_while(Result::ok).for_each(|payload| signs.add(&payload));
        signs
    }

    fn is_handler(self) -> bool {
        self.typed || self.handle
    }

    /// Whether the module can be called at all.
    pub(super) fn is_callable(self) -> bool {
        self.is_handler() || self.start
    }
}

/// What a module becomes depends on this besides its own bytes.
pub(super) fn ingredients() -> [&'static [u8]; 3] {
    [CONTRACT.as_bytes(), ADAPTER, ADAPTER_WIT.as_bytes()]
}

/// The component of a core module. For the compiler's process: a module may be made to cost any amount of time.
///
/// # Errors
/// What is wrong with the module's imports or exports, in words for its author.
pub(super) fn into_component(module: &[u8]) -> Result<Vec<u8>, String> {
    encode(module).map_err(|error| format!("the core module cannot be made a component: {error:#}"))
}

fn encode(module: &[u8]) -> Result<Vec<u8>, Error> {
    let signs = ModuleSigns::of(module);
    let (module, name) = if signs.is_handler() {
        (with_type(module, signs)?, "gristmill:preview1/adapter")
    } else {
        (module.to_vec(), "gristmill:preview1/command")
    };
    let mut adapter = ADAPTER.to_vec();
    let (resolve, world) = world(&[ADAPTER_WIT], name)?;
    embed_component_metadata(&mut adapter, &resolve, world, StringEncoding::UTF8)?;
    ComponentEncoder::default().module(&module)?.adapter(PREVIEW1, &adapter)?.validate(true).encode()
}

/// The module with its component type: its own, or that of every handler.
fn with_type(module: &[u8], signs: ModuleSigns) -> Result<Vec<u8>, Error> {
    let mut module = module.to_vec();
    if !signs.typed {
        let name = if signs.self_test { "gristmill:job/job-handler-full" } else { "gristmill:job/job-handler-all" };
        let (resolve, world) = world(&[], name)?;
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;
    }
    Ok(module)
}

/// A world of the contract, or of a package besides it.
fn world(packages: &[&str], name: &str) -> Result<(Resolve, WorldId), Error> {
    let mut resolve = Resolve::default();
    let mut package = resolve.push_source("job.wit", CONTRACT)?;
    for text in packages {
        package = resolve.push_source("package.wit", text)?;
    }
    let world = resolve.select_world(&[package], Some(name))?;
    Ok((resolve, world))
}

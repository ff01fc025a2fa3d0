//! Reads the DWARF of a component's core modules, in the process that compiles it.

use std::collections::HashMap;

use addr2line::gimli::{Dwarf, EndianSlice, Error, LittleEndian};
use addr2line::{Context, FrameIter, Location};
use wasmparser::{Parser, Payload};

/// Of all sections together. A handler in Rust with all that a debugger could want has some 10 MiB.
const DWARF_BYTES_MAX: usize = 32 << 20;
/// Rows of all modules: the table then has some 24 MiB at most.
const ROWS_MAX: usize = 1 << 20;
/// Functions that are inlined into each other.
const INLINED_MAX: usize = 16;

/// Where a stretch of instructions begins, by bytes from the component's first, and where it comes from: the line itself, then those of
/// the calls that were inlined. No line where the stretch before ends and none begins.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) at: u32,
    pub(super) lines: Vec<SourceLine>,
}

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct SourceLine {
    pub(super) file: String,
    pub(super) line: u32,
}

type Section<'a> = EndianSlice<'a, LittleEndian>;

/// A core module that carries DWARF.
#[derive(Default)]
struct Module<'a> {
    /// The content of its code section, from the component's first byte. Addresses in DWARF count from there.
    code: std::ops::Range<usize>,
    sections: HashMap<&'a str, &'a [u8]>,
}

/// The rows of a component, in order. None if there are none, or too many.
pub(super) fn read(wasm: &[u8]) -> Option<Vec<Row>> {
    let modules = modules(wasm)?;
    let bytes: usize = modules.iter().flat_map(|module| module.sections.values()).map(|section| section.len()).sum();
    if bytes > DWARF_BYTES_MAX {
        return None;
    }
    let mut rows = Vec::new();
    for module in &modules {
        module.add_rows(&mut rows)?;
    }
    // Where one stretch begins at the end of another, the beginning counts.
    rows.sort_by_key(|row| (row.at, row.lines.is_empty()));
    rows.dedup_by_key(|row| row.at);
    (!rows.is_empty()).then_some(rows)
}

fn modules(wasm: &[u8]) -> Option<Vec<Module<'_>>> {
    let (mut open, mut found) = (Vec::<Module<'_>>::new(), Vec::new());
    for payload in Parser::new(0).parse_all(wasm) {
        match payload.ok()? {
            Payload::Version { .. } => open.push(Module::default()),
            Payload::CodeSectionStart { range, .. } => open.last_mut()?.code = range,
            Payload::CustomSection(section) if section.name().starts_with(".debug_") => {
                open.last_mut()?.sections.insert(section.name(), section.data());
            }
            Payload::End(_) => found.extend(open.pop().filter(|module| !module.sections.is_empty())),
            _ => {}
        }
    }
    Some(found)
}

impl Module<'_> {
    /// None: the component's rows are too many. DWARF that cannot be read has no rows.
    fn add_rows(&self, rows: &mut Vec<Row>) -> Option<()> {
        let sections = Dwarf::load(|id| {
            let section = self.sections.get(id.name()).copied().unwrap_or_default();
            Ok::<_, Error>(EndianSlice::new(section, LittleEndian))
        });
        let Ok(context) = sections.and_then(Context::from_dwarf) else { return Some(()) };
        let Ok(stretches) = context.find_location_range(0, self.code.len() as u64) else { return Some(()) };
        for (address, bytes, _) in stretches {
            let Ok(frames) = context.find_frames(address).skip_all_loads() else { continue };
            let lines = lines(frames, folder(&context, address));
            rows.extend(self.at(address).map(|at| Row { at, lines }));
            rows.extend(
                address.checked_add(bytes).and_then(|end| self.at(end)).map(|at| Row { at, lines: Vec::new() }),
            );
            if rows.len() > 2 * ROWS_MAX {
                return None;
            }
        }
        Some(())
    }

    fn at(&self, address: u64) -> Option<u32> {
        u32::try_from(address.checked_add(self.code.start as u64)?).ok()
    }
}

/// The project's folder: where the compiler ran, if it was given the file by its path from there. Cargo does so for the author's own.
fn folder<'a>(context: &Context<Section<'a>>, address: u64) -> &'a str {
    let unit = context.find_dwarf_and_unit(address).skip_all_loads();
    let own = unit.filter(|unit| unit.name.is_some_and(|name| !name.starts_with(b"/")));
    own.and_then(|unit| str::from_utf8(unit.comp_dir?.slice()).ok()).unwrap_or_default()
}

fn lines(mut frames: FrameIter<'_, Section<'_>>, folder: &str) -> Vec<SourceLine> {
    let mut lines = Vec::new();
    while let Ok(Some(frame)) = frames.next()
        && lines.len() < INLINED_MAX
    {
        if let Some(Location { file: Some(file), line: Some(line), .. }) = frame.location {
            lines.push(SourceLine { file: shortened(file, folder).to_owned(), line });
        }
    }
    lines
}

/// The author's own sources by their path below the project, as their compiler names them; those of a crate by the crate, and those of Rust
/// itself, which are nowhere on the author's machine, without `/rustc/<commit>/`.
fn shortened<'a>(file: &'a str, folder: &str) -> &'a str {
    let of_rust = || file.strip_prefix("/rustc/").and_then(|file| Some(file.split_once('/')?.1));
    let of_crate = || file.split_once("/registry/src/").and_then(|(_, file)| Some(file.split_once('/')?.1));
    let own = || file.strip_prefix(folder).filter(|_| !folder.is_empty()).and_then(|file| file.strip_prefix('/'));
    of_rust().or_else(of_crate).or_else(own).unwrap_or(file)
}

#[cfg(test)]
mod tests {
    use super::shortened;

    #[test]
    fn a_file_is_named_without_the_folders_of_its_authors_machine() {
        let crates = "/home/ada/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f";
        for (file, folder, short) in [
            ("/home/ada/orders/src/lib.rs", "/home/ada/orders", "src/lib.rs"),
            ("/home/ada/orders-2/src/lib.rs", "/home/ada/orders", "/home/ada/orders-2/src/lib.rs"),
            ("./handler.c", ".", "handler.c"),
            ("/usr/lib/zig/std/fmt.zig", "/home/ada/orders", "/usr/lib/zig/std/fmt.zig"),
            ("/usr/lib/fmt.c", "", "/usr/lib/fmt.c"),
            ("/rustc/59807616e1/library/core/src/str.rs", "/rustc/59807616e1", "library/core/src/str.rs"),
            (&format!("{crates}/serde-1.0.0/src/de.rs"), &format!("{crates}/serde-1.0.0"), "serde-1.0.0/src/de.rs"),
        ] {
            assert_eq!(shortened(file, folder), short);
        }
    }
}

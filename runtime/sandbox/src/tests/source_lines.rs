//! DWARF as a compiler writes it, in a few bytes.

use std::fmt::Write;

use gristmill_core::outcome::Outcome;

use super::guest::{component, core, handler};
use super::{attempt, sandbox};
use crate::private_folder::DIGEST_BYTES;
use crate::source_lines::{SourceLines, append};

/// A unit `handler.c` in `/src`.
fn abbreviations() -> Vec<u8> {
    let (name, lines, from, to, folder) = ([0x03, 0x08], [0x10, 0x17], [0x11, 0x01], [0x12, 0x06], [0x1b, 0x08]);
    [&[1, 0x11, 0][..], &name, &lines, &from, &to, &folder, &[0, 0, 0]].concat()
}

fn with_length(unit: &[u8]) -> Vec<u8> {
    [&u32::try_from(unit.len()).unwrap().to_le_bytes()[..], unit].concat()
}

/// All code below this is of the unit.
const CODE_BYTES: [u8; 4] = [0xff, 0x7f, 0, 0];

fn units() -> Vec<u8> {
    let attributes = [b"handler.c\0", &[0; 8][..], &CODE_BYTES, b"/src\0"].concat();
    with_length(&[&[4, 0, 0, 0, 0, 0, 4, 1][..], &attributes].concat())
}

/// Line 42, from the first instruction to the last.
fn lines() -> Vec<u8> {
    let header = [&[1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0][..], b"handler.c\0", &[0; 4]].concat();
    let program = [0, 5, 2, 0, 0, 0, 0, 3, 41, 1, 2, 0xff, 0xff, 1, 0, 1, 1];
    with_length(&[&[3, 0][..], &with_length(&header), &program].concat())
}

fn module(sections: &[(&str, &[u8])]) -> String {
    let mut custom = String::new();
    for (name, content) in sections {
        let content: String = content.iter().map(|byte| format!("\\{byte:02x}")).collect();
        write!(custom, "(@custom \"{name}\" \"{content}\")").unwrap();
    }
    let module = core("(func $inner unreachable)", "(call $inner) (call $done)");
    format!("{} {custom})", module.strip_suffix(')').unwrap())
}

fn guest(sections: &[(&str, &[u8])]) -> Vec<u8> {
    component(&module(sections), &[], "gristmill:job/job-handler")
}

async fn backtrace(wasm: &[u8]) -> String {
    // The table is in the artifact.
    let cache = tempfile::tempdir().unwrap();
    let report = sandbox(cache.path()).load(wasm).await.unwrap().invoke(attempt("")).await;
    let Outcome::Trapped { backtrace, .. } = report.outcome else { panic!("{report:?}") };
    backtrace
}

#[tokio::test]
async fn a_trap_names_the_lines_of_its_sources() {
    let backtrace =
        backtrace(&guest(&[(".debug_abbrev", &abbreviations()), (".debug_info", &units()), (".debug_line", &lines())]))
            .await;
    let lines: Vec<&str> = backtrace.lines().map(str::trim).collect();
    let [inner, inner_at, handle, handle_at] = lines[..] else { panic!("{backtrace}") };
    assert!(inner.ends_with("inner") && handle.ends_with("handle"), "{backtrace}");
    assert_eq!([inner_at, handle_at], ["at handler.c:42"; 2]);
}

#[tokio::test]
async fn broken_debug_information_is_ignored() {
    for broken in [&b"nonsense"[..], &[0xff; 100], &lines()[..20], &[]] {
        let wasm = guest(&[(".debug_abbrev", &abbreviations()), (".debug_info", broken), (".debug_line", broken)]);
        let backtrace = backtrace(&wasm).await;
        assert_eq!(backtrace.lines().count(), 2, "{backtrace}");
    }
}

/// Where the content of the code section of a [`bare`] module begins.
const CODE_AT: usize = 10;

/// A core module with an empty code section and these custom ones.
fn bare(sections: &[(&str, &[u8])]) -> Vec<u8> {
    let mut module = b"\0asm\x01\0\0\0\x0a\x01\0".to_vec();
    for (name, content) in sections {
        let content = [&[u8::try_from(name.len()).unwrap()], name.as_bytes(), content].concat();
        module.push(0);
        // A number of five bytes, however small.
        let size = u32::try_from(content.len()).unwrap();
        let byte = |index: u32| u8::try_from(size >> (7 * index) & 0x7f).unwrap() | if index < 4 { 0x80 } else { 0 };
        module.extend((0..5).map(byte));
        module.extend(content);
    }
    module
}

/// What is put behind the artifact of a [`bare`] module.
fn table(abbreviations: &[u8], units: &[u8], lines: &[u8], other: &[u8]) -> Vec<u8> {
    let sections =
        [(".debug_abbrev", abbreviations), (".debug_info", units), (".debug_line", lines), (".debug_str", other)];
    let mut table = Vec::new();
    append(&mut table, &bare(&sections));
    table
}

#[test]
fn debug_information_over_its_limit_is_ignored() {
    let with = |other: &[u8]| table(&abbreviations(), &units(), &lines(), other);
    assert!(!with(&[0; 1000]).is_empty());
    assert!(with(&vec![0; 32 << 20]).is_empty());
}

#[test]
fn an_artifact_without_debug_information_stays_as_it_is() {
    let mut artifact = b"code".to_vec();
    append(&mut artifact, &handler("", "(call $done)"));
    assert_eq!(artifact, b"code");
}

#[test]
fn a_table_that_is_cut_off_or_damaged_has_no_places() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("artifact");
    let whole = table(&abbreviations(), &units(), &lines(), &[]);
    let places = |bytes: &[u8]| {
        std::fs::write(&path, [bytes, &[0; DIGEST_BYTES]].concat()).unwrap();
        SourceLines::of(&path).open().map(|table| table.places(CODE_AT).len() + table.places(CODE_AT - 1).len())
    };
    assert_eq!(places(&whole), Some(1));
    assert_eq!(places(b""), None);
    (0..whole.len()).for_each(|end| assert_eq!(places(&whole[..end]), None, "{end}"));
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0xff;
        assert!(places(&damaged).unwrap_or_default() <= 32, "{at}");
    }
}

#[test]
fn made_up_debug_information_is_read_or_ignored() {
    let known = [abbreviations(), units(), lines()];
    let (abbreviations, units) = (known[0].len(), known[1].len());
    gristmill_fuzz::check("dwarf", &[&known.concat()], |input| {
        let (first, rest) = input.split_at(abbreviations.min(input.len()));
        let (second, third) = rest.split_at(units.min(rest.len()));
        let table = table(first, second, third, &[]);
        if table.is_empty() { Err("no lines") } else { Ok(table) }
    });
}

//! The table behind an artifact: rows that point to places, places that point to names of files and to the calls that were inlined. All numbers
//! are of 32 bits, little-endian; at the end stand how many there are of each.

use std::collections::HashMap;
use std::fs::File;
use std::hash::Hash;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::super::private_folder::DIGEST_BYTES;
use super::dwarf::{Row, SourceLine};

const MAGIC: u32 = u32::from_le_bytes(*b"line");
const NONE: u32 = u32::MAX;
const ROW_BYTES: u64 = 8;
const PLACE_BYTES: u64 = 16;
const END_BYTES: u64 = 16;
/// Of a longer path the end.
const FILE_BYTES_MAX: usize = 256;
/// Calls that were inlined into each other, whatever the table says.
const PLACES_MAX: usize = 16;

/// The table of rows that are in order. None if it is too large for its numbers.
pub(super) fn encode(rows: &[Row]) -> Option<Vec<u8>> {
    let (mut files, mut names) = (HashMap::new(), Vec::new());
    let mut places = Interned::default();
    let mut table = Vec::new();
    for row in rows {
        let mut caller = NONE;
        for SourceLine { file, line } in row.lines.iter().rev() {
            let name =
                file.get(file.ceil_char_boundary(file.len().saturating_sub(FILE_BYTES_MAX))..).unwrap_or_default();
            let at = match files.get(name) {
                Some(at) => *at,
                None => {
                    let at = u32::try_from(names.len()).ok()?;
                    files.insert(name, at);
                    names.extend_from_slice(name.as_bytes());
                    at
                }
            };
            caller = places.number([at, u32::try_from(name.len()).ok()?, *line, caller])?;
        }
        table.extend([row.at, caller].map(u32::to_le_bytes).concat());
    }
    table.extend(places.in_order.iter().flatten().flat_map(|number| number.to_le_bytes()));
    table.extend_from_slice(&names);
    let ends = [rows.len(), places.in_order.len(), names.len()];
    for count in ends {
        table.extend(u32::try_from(count).ok()?.to_le_bytes());
    }
    table.extend(MAGIC.to_le_bytes());
    Some(table)
}

/// Numbers for values, in the order in which they came.
struct Interned<T> {
    numbers: HashMap<T, u32>,
    in_order: Vec<T>,
}

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Self { numbers: HashMap::new(), in_order: Vec::new() }
    }
}

impl<T: Hash + Eq + Copy> Interned<T> {
    fn number(&mut self, value: T) -> Option<u32> {
        if let Some(number) = self.numbers.get(&value) {
            return Some(*number);
        }
        let number = u32::try_from(self.in_order.len()).ok()?;
        self.numbers.insert(value, number);
        self.in_order.push(value);
        Some(number)
    }
}

/// The artifact of a component, where its table is if it has one.
#[derive(Debug)]
pub(crate) struct SourceLines {
    artifact: PathBuf,
}

impl SourceLines {
    pub(crate) fn of(artifact: &Path) -> Self {
        Self { artifact: artifact.to_owned() }
    }

    /// The table, for the frames of one trap. None if there is none, or if the file is gone.
    pub(crate) fn open(&self) -> Option<Table> {
        let file = File::open(&self.artifact).ok()?;
        let end = file.metadata().ok()?.len().checked_sub(DIGEST_BYTES as u64 + END_BYTES)?;
        let [rows, places, names, magic] = numbers(&file, end)?;
        let names_at = end.checked_sub(names.into())?;
        let places_at = names_at.checked_sub(u64::from(places) * PLACE_BYTES)?;
        let rows_at = places_at.checked_sub(u64::from(rows) * ROW_BYTES)?;
        (magic == MAGIC).then_some(Table { file, rows_at, rows, places_at, places, names_at, names })
    }
}

/// A table in a file.
#[derive(Debug)]
pub(crate) struct Table {
    file: File,
    rows_at: u64,
    rows: u32,
    places_at: u64,
    places: u32,
    names_at: u64,
    names: u32,
}

impl Table {
    /// The places of an instruction, such as `src/lib.rs:42`, by bytes from the component's first: the one that it stands for, then those
    /// of the calls that were inlined, innermost first.
    pub(crate) fn places(&self, at: usize) -> Vec<String> {
        let mut next = u32::try_from(at).ok().and_then(|at| self.place_of(at)).unwrap_or(NONE);
        let mut found = Vec::new();
        while let Some((place, caller)) = self.place(next)
            && found.len() < PLACES_MAX
        {
            found.push(place);
            next = caller;
        }
        found
    }

    /// The number of the place of the last row that begins there or before.
    fn place_of(&self, at: u32) -> Option<u32> {
        let row = |index: u32| numbers::<2>(&self.file, self.rows_at + u64::from(index) * ROW_BYTES);
        let (mut low, mut high) = (0, self.rows);
        while low < high {
            let middle = low + (high - low) / 2;
            let [begin, _] = row(middle)?;
            if begin <= at {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        row(low.checked_sub(1)?).map(|[_, place]| place)
    }

    fn place(&self, number: u32) -> Option<(String, u32)> {
        let at = (number < self.places).then(|| self.places_at + u64::from(number) * PLACE_BYTES)?;
        let [name, bytes, line, caller] = numbers(&self.file, at)?;
        let is_whole = name.checked_add(bytes)? <= self.names && usize::try_from(bytes).ok()? <= FILE_BYTES_MAX;
        let mut file = vec![0; is_whole.then(|| usize::try_from(bytes).ok())??];
        self.file.read_exact_at(&mut file, self.names_at + u64::from(name)).ok()?;
        Some((format!("{}:{line}", String::from_utf8_lossy(&file)), caller))
    }
}

fn numbers<const N: usize>(file: &File, at: u64) -> Option<[u32; N]> {
    let mut numbers = [[0; 4]; N];
    file.read_exact_at(numbers.as_flattened_mut(), at).ok()?;
    Some(numbers.map(u32::from_le_bytes))
}

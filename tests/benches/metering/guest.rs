//! What is run.

use std::path::Path;

use gristmill_tests::{guests, text};

/// A component and what it is given.
pub(crate) struct Guest {
    pub(crate) name: String,
    pub(crate) wasm: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

/// A megabyte read and written, and a multiplication a word: code that a compiler would make of an honest inner loop.
const LOOP: &str = "
    (local.set $i (i32.const 1000000))
    (loop $again
      (i64.store offset=32768 (i32.and (local.get $i) (i32.const 8184))
        (i64.mul (i64.add (i64.extend_i32_u (local.get $i)) (i64.const 3))
          (i64.load offset=32768 (i32.and (local.get $i) (i32.const 8184)))))
      (br_if $again (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))";

impl Guest {
    /// Those of the tables, and components of these files.
    pub(crate) fn all(files: &[String]) -> Vec<Self> {
        let photo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/photo.jpg");
        let mut all = Self::quick();
        all.push(Self { body: std::fs::read(photo).unwrap(), ..Self::of_file("resize-image", guests::RESIZE_IMAGE) });
        all.extend(files.iter().map(|file| Self::of_file(file, file)));
        all
    }

    /// Those that compile and run at once.
    pub(crate) fn quick() -> Vec<Self> {
        vec![
            Self::of_text("empty component", text::empty()),
            Self::of_text("no-op, no WASI", text::handler("")),
            Self::of_file("no-op, Rust std", guests::ECHO),
            Self::of_text("inner loop", text::handler(LOOP)),
        ]
    }

    /// Never ends.
    pub(crate) fn endless() -> Self {
        Self::of_text("endless loop", text::handler("(loop $again (br $again))"))
    }

    fn of_text(name: &str, wasm: Vec<u8>) -> Self {
        Self { name: name.into(), wasm, body: vec![b'x'; 200] }
    }

    fn of_file(name: &str, path: &str) -> Self {
        let wasm = std::fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        Self { name: name.into(), wasm, body: vec![b'x'; 200] }
    }
}

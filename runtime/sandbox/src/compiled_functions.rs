//! The code of functions that were compiled before.

use std::borrow::Cow;
use std::collections::HashMap;

use parking_lot::Mutex;
use wasmtime::CacheStore;

/// So that a long session, in which large handlers are edited, does not fill the memory.
const BYTES_MAX: usize = 512 << 20;

/// Of each function, by a hash of it and of all that decides its code, what the compiler made. Begins anew when it is full.
#[derive(Debug, Default)]
pub(super) struct CompiledFunctions(Mutex<Functions>);

#[derive(Debug, Default)]
struct Functions {
    codes: HashMap<Vec<u8>, Vec<u8>>,
    bytes: usize,
}

impl CacheStore for CompiledFunctions {
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.0.lock().codes.get(key).cloned().map(Cow::Owned)
    }

    fn insert(&self, key: &[u8], code: Vec<u8>) -> bool {
        let mut functions = self.0.lock();
        let bytes = key.len().saturating_add(code.len());
        if functions.bytes.saturating_add(bytes) > BYTES_MAX {
            *functions = Functions::default();
        }
        functions.bytes = functions.bytes.saturating_add(bytes);
        functions.codes.insert(key.to_vec(), code);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::compile_child::artifact_of;

    fn component(number: u32) -> Vec<u8> {
        let function = "(func (export \"same\") (param i32) (result i32) (local.get 0))";
        let other = format!("(func (export \"other\") (result i32) (i32.const {number}))");
        wat::parse_str(format!("(component (core module {function} {other}))")).unwrap()
    }

    #[test]
    fn what_did_not_change_is_not_compiled_again_and_the_code_is_the_same() {
        let known = Arc::<CompiledFunctions>::default();
        let functions = || known.0.lock().codes.len();
        artifact_of(component(1), Some(Arc::clone(&known))).unwrap();
        let of_the_first = functions();
        let artifact = artifact_of(component(2), Some(Arc::clone(&known))).unwrap();
        assert_eq!(functions(), of_the_first + 1);
        assert_eq!(artifact, artifact_of(component(2), None).unwrap());
    }

    #[test]
    fn it_begins_anew_when_it_is_full() {
        let known = CompiledFunctions::default();
        let large = || vec![0; BYTES_MAX / 2];
        for key in [b"one", b"two"] {
            assert!(known.insert(key, large()));
        }
        assert!(known.get(b"one").is_none());
        assert!(known.get(b"two").is_some());
    }
}

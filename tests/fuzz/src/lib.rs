//! Feeds made-up inputs to what reads bytes from outside: a parser must refuse what it does not understand, and never panic.
//!
//! A target is a unit test beside the parser, which calls [`check`] with known good inputs. Inputs are made by changing those. A
//! target answers with what it made of an input: `Ok` if it accepted it. An input with a new answer is kept and changed further, so
//! that a run gets deeper into the parser than chance alone. It works on the stable compiler, without instrumentation.
//!
//! `GRISTMILL_FUZZ_INPUTS` is the number of inputs of each target (3,000 if not set, for a test run), `GRISTMILL_TEST_SEED` repeats a
//! run. `scripts/fuzz.sh` runs all targets for long.

mod mutate;

use std::collections::HashSet;
use std::fmt::{self, Debug, Write};
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::time::Instant;

use fastrand::Rng;

const INPUTS: &str = "GRISTMILL_FUZZ_INPUTS";
const SEED: &str = "GRISTMILL_TEST_SEED";
/// Inputs with new answers that are kept in a run, of those accepted and of those refused.
const KEPT: usize = 4_096;

/// Calls `target` with each input of its corpus and with changed ones.
///
/// The corpus is `known` and the files of `tests/fuzz/corpus/NAME`, where inputs that once failed are kept. `target` answers with what it
/// made of the input, or why it refused it: the more it tells apart, the deeper a run gets. It checks what holds of every input by
/// asserting it.
///
/// # Panics
/// When `target` does, after writing the input to `target/fuzz/NAME`; when it accepts nothing of its corpus, from which no change
/// would lead to more than its first check.
pub fn check<A: Debug, E: Debug>(name: &str, known: &[&[u8]], target: impl Fn(&[u8]) -> Result<A, E>) {
    let inputs = number(INPUTS).unwrap_or(3_000);
    check_with(name, known, inputs, number(SEED).unwrap_or_else(|| fastrand::u64(..)), target);
}

fn check_with<A: Debug, E: Debug>(
    name: &str,
    known: &[&[u8]],
    inputs: u64,
    seed: u64,
    target: impl Fn(&[u8]) -> Result<A, E>,
) {
    println!("{name}: {SEED}={seed}");
    let mut random = Rng::with_seed(seed);
    // What is refused is much more than what is accepted: each has half of the changes.
    let (mut refused, mut accepted) = (Vec::new(), Vec::new());
    let mut answers = HashSet::new();
    for input in known.iter().map(|input| input.to_vec()).chain(kept_files(name)) {
        let answer = answer(name, &input, &target);
        answers.insert(answer.hash);
        if answer.is_accepted { &mut accepted } else { &mut refused }.push(input);
    }
    assert!(!accepted.is_empty(), "{name}: nothing of its corpus is accepted");
    let mut times_accepted = 0_u64;
    let began = Instant::now();
    for _ in 0..inputs {
        let corpus = if refused.is_empty() || random.bool() { &accepted } else { &refused };
        let input = mutate::mutate(corpus, &mut random);
        let answer = answer(name, &input, &target);
        times_accepted += u64::from(answer.is_accepted);
        let corpus = if answer.is_accepted { &mut accepted } else { &mut refused };
        if answers.insert(answer.hash) && corpus.len() < KEPT {
            corpus.push(input);
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let rate = inputs as f64 / seconds;
    let different = answers.len();
    println!(
        "{name}: {inputs} inputs in {seconds:.1} s ({rate:.0}/s), {times_accepted} accepted, {different} different answers, no panic"
    );
}

/// What a target made of an input.
struct Answer {
    is_accepted: bool,
    hash: u64,
}

fn answer<A: Debug, E: Debug>(name: &str, input: &[u8], target: &impl Fn(&[u8]) -> Result<A, E>) -> Answer {
    match catch_unwind(AssertUnwindSafe(|| target(input))) {
        Ok(answer) => {
            let mut sketch = Sketch { has_digits: answer.is_ok(), ..Sketch::default() };
            // An error says that the sketch is complete.
            let _ = write!(sketch, "{answer:?}");
            Answer { is_accepted: answer.is_ok(), hash: sketch.hash.finish() }
        }
        Err(panic) => {
            println!("{name}: the input that failed is {}", keep(name, input).display());
            resume_unwind(panic)
        }
    }
}

/// Hashes the first letters of an answer, without its text: formatting ends as soon as there are enough. What an error quotes of the
/// input, and its positions, are left out: they would make every input a new one.
#[derive(Default)]
struct Sketch {
    hash: DefaultHasher,
    letters: usize,
    is_quoted: bool,
    last: u8,
    /// The numbers of an accepted input say what is in it.
    has_digits: bool,
}

impl Sketch {
    const LETTERS: usize = 120;
}

impl Write for Sketch {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            // In an answer that is shown for programmers, the quotes inside a text are escaped.
            self.is_quoted ^= byte == b'`' || (self.last, byte) == (b'\\', b'"');
            self.last = byte;
            let counts = byte.is_ascii_alphabetic() || self.has_digits && byte.is_ascii_digit();
            if counts && !self.is_quoted {
                self.hash.write_u8(byte);
                self.letters += 1;
            }
            if self.letters == Self::LETTERS {
                return Err(fmt::Error);
            }
        }
        Ok(())
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is not a number")))
}

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn kept_files(name: &str) -> Vec<Vec<u8>> {
    let Ok(files) = fs::read_dir(here().join("corpus").join(name)) else { return Vec::new() };
    files.map(|file| fs::read(file.unwrap().path()).unwrap()).collect()
}

fn keep(name: &str, input: &[u8]) -> PathBuf {
    let folder = here().join("../../target/fuzz").join(name);
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join(format!("{:016x}", fastrand::u64(..)));
    fs::write(&file, input).unwrap();
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_finds_a_rare_panic_and_keeps_its_input() {
        // Three steps deep: only inputs that got a new answer on the way lead there.
        let target = |input: &[u8]| {
            let depth = b"abc".iter().enumerate().take_while(|(at, byte)| input.get(*at) == Some(byte)).count();
            assert!(depth < 3, "found");
            Ok::<_, ()>("x".repeat(depth))
        };
        let folder = here().join("../../target/fuzz/planted");
        let _ = fs::remove_dir_all(&folder);
        let run = catch_unwind(|| check_with("planted", &[b"zzz"], 1_000_000, 7, target));
        assert!(run.is_err(), "a million inputs did not find it");
        let kept = fs::read_dir(folder).unwrap().next().unwrap().unwrap();
        assert!(fs::read(kept.path()).unwrap().starts_with(b"abc"));
    }

    #[test]
    fn a_seed_makes_the_same_inputs_again() {
        let run = || {
            let inputs = std::cell::RefCell::new(Vec::new());
            check_with("seeded", &[b"{}"], 100, 3, |input| {
                inputs.borrow_mut().push(input.to_vec());
                Ok::<_, ()>(())
            });
            inputs.into_inner()
        };
        assert_eq!(run(), run());
    }

    #[test]
    fn a_corpus_of_which_nothing_is_accepted_fails() {
        let run = catch_unwind(|| check_with("refused", &[b"a", b"b"], 1, 3, |_| Err::<(), _>("refused")));
        assert!(run.is_err());
    }
}

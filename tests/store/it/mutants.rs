//! The mutants that `scripts/mutants.sh` makes.

use std::path::Path;

use gristmill_store_tests::mutants;

#[test]
fn every_mutant_can_still_be_made() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for store in ["redis", "embedded"] {
        let mutants = mutants::of(&root, store);
        assert!(mutants.len() >= 10, "{store}: {} mutants", mutants.len());
        for mutant in mutants {
            assert_eq!(mutant.found(&root), 1, "{store}: {}: its text stands once in {}", mutant.rule, mutant.file);
            assert_ne!(mutant.text, mutant.replacement, "{store}: {}", mutant.rule);
            assert!(mutant.replacement.len() <= mutant.text.len(), "{store}: {}: too long to fit", mutant.rule);
        }
    }
}

//! What tests of stores share: a store of every kind on servers of its own, randomness that can be played again, and mutants.

pub mod deployment;
pub mod mutants;
pub mod proxy;
pub mod random;
pub mod test_store;

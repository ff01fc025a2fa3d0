//! What a language has of the contract, in the order of its file.

use anyhow::Result;
use wit_parser::Type;

use crate::contract::{Contract, Interface};

pub(crate) struct Language {
    /// Below the root of the repository.
    pub(crate) file: &'static str,
    /// What all of it needs, whatever the contract has.
    pub(crate) prelude: &'static str,
    /// The declaration of a record, variant or enum; empty if the SDK has its own.
    pub(crate) define: fn(&Contract, &Type) -> Result<String>,
    /// The function that reads such a type from memory; empty if it takes none.
    pub(crate) lift_function: fn(&Contract, &Type) -> Result<String>,
    /// The function that writes it there.
    pub(crate) store_function: fn(&Contract, &Type) -> Result<String>,
    /// A function for each one that handlers import.
    pub(crate) imports: fn(&Contract, &Interface<'_>) -> Result<String>,
    /// What the runner calls.
    pub(crate) exports: fn(&Contract, &Interface<'_>) -> Result<String>,
}

impl Language {
    /// The text of its file.
    pub(crate) fn generate(&self, contract: &Contract) -> Result<String> {
        let used = contract.used()?;
        let (imports, exports) = (contract.imports(), contract.exports());
        let parts = used
            .all()
            .map(|ty| (self.define)(contract, ty))
            .chain(used.lifted.iter().map(|ty| (self.lift_function)(contract, ty)))
            .chain(used.lowered.iter().map(|ty| (self.store_function)(contract, ty)))
            .chain(imports.iter().map(|interface| (self.imports)(contract, interface)))
            .chain(exports.iter().map(|interface| (self.exports)(contract, interface)));
        Ok(self.prelude.to_owned() + &parts.collect::<Result<String>>()?)
    }
}

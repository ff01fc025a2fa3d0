//! `config`: settings and secrets granted to the topic. What is not granted does not exist.

use super::super::bindings::config::Host;
use super::super::state::State;

impl Host for State {
    fn get(&mut self, name: String) -> wasmtime::Result<Option<String>> {
        self.count_call()?;
        Ok(self.grants.config.get(&name).cloned())
    }

    fn secret(&mut self, name: String) -> wasmtime::Result<Option<Vec<u8>>> {
        self.count_call()?;
        Ok(self.grants.secrets.get(&name).cloned())
    }
}

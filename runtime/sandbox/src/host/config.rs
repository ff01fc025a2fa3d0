//! `config`: settings and secrets granted to the topic. What is not granted does not exist.

use super::super::bindings::config::Host;
use super::super::state::State;

impl Host for State {
    fn get(&mut self, name: String) -> wasmtime::Result<Option<String>> {
        self.charge(name.len())?;
        let question = self.question("config.get", &name, &name);
        let value = self.ask(&question, |state| Ok(state.attempt.grants.config.get(&name).cloned()))?;
        self.charge_bytes(value.as_ref().map_or(0, String::len));
        Ok(value)
    }

    fn secret(&mut self, name: String) -> wasmtime::Result<Option<Vec<u8>>> {
        self.charge(name.len())?;
        let question = self.question("config.secret", &name, &name);
        let placeholder = self.placeholders().and_then(|all| all.secret(&name)).map(|text| text.as_bytes().to_vec());
        let value = match placeholder {
            Some(placeholder) => self.ask(&question, |_| Ok(Some(placeholder)))?,
            None => self.ask_sealed(&question, |state| Ok(state.attempt.grants.secrets.get(&name).cloned()))?,
        };
        self.charge_bytes(value.as_ref().map_or(0, Vec::len));
        Ok(value)
    }
}

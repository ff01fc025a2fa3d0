//! `log`: structured lines of the guest.

use super::super::attempt::LogLine;
use super::super::bindings::log::{Host, Level};
use super::super::state::State;

impl Host for State {
    fn emit(&mut self, level: Level, message: String, fields: Vec<(String, String)>) -> wasmtime::Result<()> {
        let line = LogLine { level: level.into(), source: "log", message, fields };
        self.charge(line.bytes())?;
        self.log(line);
        Ok(())
    }

    fn enabled(&mut self, level: Level) -> wasmtime::Result<bool> {
        self.charge(0)?;
        Ok(self.guest_log().keeps(level.into()))
    }
}

impl From<Level> for tracing::Level {
    fn from(level: Level) -> Self {
        match level {
            Level::Trace => Self::TRACE,
            Level::Debug => Self::DEBUG,
            Level::Info => Self::INFO,
            Level::Warn => Self::WARN,
            Level::Error => Self::ERROR,
        }
    }
}

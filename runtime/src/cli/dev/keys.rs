//! The keys of `dev`, while a person sits at a terminal.

use std::future::pending;
use std::io::{IsTerminal, Read};

use rustix::process::getpgrp;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};
use tokio::sync::mpsc::{self, Receiver};
use tokio_util::sync::CancellationToken;

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    JumpDelays,
    OpenPage,
    Grant,
    RunAgain,
    Quit,
    /// Any other key.
    Help,
}

impl Key {
    pub(super) const HELP: &str =
        "keys: r run again  d jump over delays  g write missing grants  o open the page  q quit";

    const fn of(byte: u8) -> Self {
        match byte {
            b'd' => Self::JumpDelays,
            b'o' => Self::OpenPage,
            b'g' => Self::Grant,
            b'r' => Self::RunAgain,
            b'q' => Self::Quit,
            _ => Self::Help,
        }
    }
}

/// Reads the keys one by one. Dropped, it leaves the terminal as it was.
#[derive(Debug)]
pub(super) struct Keys {
    pressed: Option<Receiver<Key>>,
    before: Option<Termios>,
}

impl Keys {
    /// From now on, if standard input is a terminal. `q` cancels `quit`, whatever else is done at the time.
    pub(super) fn read(quit: CancellationToken) -> Self {
        let stdin = std::io::stdin();
        // The terminal stops a process in the background that changes it.
        let is_ours = stdin.is_terminal() && tcgetpgrp(&stdin) == Ok(getpgrp());
        let before = is_ours.then(|| tcgetattr(&stdin).ok()).flatten();
        let Some(mut modes) = before.clone() else { return Self { pressed: None, before: None } };
        // Lines that are printed still end as they should, and Ctrl-C is still a signal.
        modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        if tcsetattr(&stdin, OptionalActions::Now, &modes).is_err() {
            return Self { pressed: None, before: None };
        }
        let (sender, pressed) = mpsc::channel(8);
        // Ends with the program: a read of the terminal cannot be broken off.
        std::thread::spawn(move || {
            for byte in stdin.lock().bytes().map_while(Result::ok) {
                let key = Key::of(byte);
                if key == Key::Quit {
                    quit.cancel();
                }
                // Keys that were pressed during a long build are not all kept.
                let _ = sender.try_send(key);
            }
        });
        Self { pressed: Some(pressed), before }
    }

    pub(super) const fn are_read(&self) -> bool {
        self.pressed.is_some()
    }

    /// The next key. Never, without a terminal. Cancel-safe.
    pub(super) async fn next(&mut self) -> Key {
        match &mut self.pressed {
            Some(pressed) => match pressed.recv().await {
                Some(key) => key,
                None => pending().await,
            },
            None => pending().await,
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_that_the_help_names_does_something_and_any_other_shows_the_help() {
        let named = Key::HELP.split_whitespace().filter(|word| word.len() == 1);
        let keys: Vec<_> = named.map(|key| Key::of(key.as_bytes()[0])).collect();
        assert_eq!(keys, [Key::RunAgain, Key::JumpDelays, Key::Grant, Key::OpenPage, Key::Quit]);
        assert_eq!([Key::of(b'?'), Key::of(b'Q'), Key::of(0x1b)], [Key::Help; 3]);
    }
}

//! A brake on clients that guess tokens and passwords.

use std::net::IpAddr;
use std::num::NonZero;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::network;
use super::rate::Rates;
use crate::problem::{Code, Problem};
use gristmill_core::token::Rate;

/// The failed attempts to identify from each network. A network with too many has to wait, even with good credentials.
#[derive(Debug)]
pub(crate) struct Guesses {
    rate: Rate,
    failed: Mutex<Rates<IpAddr>>,
}

impl Guesses {
    pub(crate) fn new(per_second: NonZero<u32>, burst: NonZero<u32>) -> Self {
        Self { rate: Rate { per_second, burst }, failed: Mutex::default() }
    }

    /// # Errors
    /// [`Code::RateLimited`]: too many attempts from this address have failed.
    pub(crate) fn may_try(&self, address: IpAddr) -> Result<(), Problem> {
        let wait = self.failed.lock().wait(&network(address), self.rate, Instant::now());
        if wait.is_zero() {
            return Ok(());
        }
        Err(Problem::new(Code::RateLimited, "too many wrong credentials came from this address").retry_after(wait))
    }

    pub(crate) fn failed(&self, address: IpAddr) {
        // One too many is not counted: the address has to wait as long as before.
        self.failed.lock().count(network(address), self.rate, Instant::now()).ok();
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn an_address_that_guesses_has_to_wait_and_others_have_not() {
        let burst = NonZero::new(5).unwrap();
        let guesses = Guesses::new(NonZero::<u32>::MIN, burst);
        let (one, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from(Ipv4Addr::LOCALHOST));
        // A machine that stands still between two of them lets in one more for each second.
        let refused = (0..1000).find(|_| {
            guesses.failed(one);
            guesses.may_try(one).is_err()
        });
        assert!(refused.is_some_and(|count| count >= 4), "{refused:?}");
        assert!(guesses.may_try(other).is_ok());
        assert!(guesses.may_try(one).unwrap_err().retry_after.is_some());
    }
}

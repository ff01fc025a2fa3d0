//! In place of the routes of pull workers, which this program is built without.

use std::time::Duration;

use crate::routes::Routes;

pub(super) const LONGEST_WAIT: Duration = Duration::ZERO;

pub(super) fn routes() -> Routes {
    Routes::default()
}

pub(super) fn waiting_routes() -> Routes {
    Routes::default()
}

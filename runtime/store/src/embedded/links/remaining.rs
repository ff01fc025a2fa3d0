//! What ends of jobs leave to be done: how much of it one transaction does, and for whom some is left.

use std::collections::BTreeSet;

use rusqlite::Connection;

use crate::embedded::fault::Done;
use gristmill_core::job::Name;

/// How many links one transaction passes on or forgets, but for those of a single job: some ten milliseconds.
pub(in crate::embedded) const STEP_LINKS: usize = 1000;

/// Whether jobs wait for others, or have waited.
const SOME_LINKS: &str = "SELECT EXISTS (SELECT 1 FROM links)";

/// Tenants whose ended jobs have links that are still to be passed on or forgotten.
const UNFINISHED: &str = "SELECT tenant FROM awaited INDEXED BY awaited_ended WHERE ended IS NOT NULL
                          UNION SELECT tenant FROM links INDEXED BY links_gone WHERE job = '' AND ended = 'f'";

/// Whether jobs wait for others, or have waited.
pub(in crate::embedded) fn some_links(connection: &Connection) -> Done<bool> {
    Ok(connection.query_row(SOME_LINKS, [], |row| row.get(0))?)
}

/// Tenants whose ended jobs have links that are still to be passed on or forgotten.
pub(in crate::embedded) fn unfinished(connection: &Connection) -> Done<BTreeSet<Name>> {
    let mut select = connection.prepare_cached(UNFINISHED)?;
    let tenants = select.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
    Ok(tenants.iter().filter_map(|tenant| tenant.parse().ok()).collect())
}

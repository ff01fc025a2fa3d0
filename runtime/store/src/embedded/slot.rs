//! What the row of a job says of its key.

use rusqlite::Row;

use super::fault::Done;
use super::row::text;

/// The key of which a row's job holds a slot.
pub(super) fn held_key(row: &Row<'_>) -> Done<Option<String>> {
    let holds = row.get::<_, Option<bool>>("slot")? == Some(true);
    Ok(text(row, "key")?.filter(|_| holds).map(str::to_owned))
}

/// The key of which a row's job holds no slot.
pub(super) fn missing_key(row: &Row<'_>) -> Done<Option<String>> {
    let holds = row.get::<_, Option<bool>>("slot")? == Some(true);
    Ok(text(row, "key")?.filter(|key| !holds && !key.is_empty()).map(str::to_owned))
}

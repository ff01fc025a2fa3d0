//! What the row of a job says of its key.

use rusqlite::Row;

use crate::embedded::fault::Done;
use crate::embedded::row::text;

/// The key of which a row's job holds a slot.
pub(in crate::embedded) fn held_key(row: &Row<'_>) -> Done<Option<String>> {
    let holds = row.get::<_, Option<bool>>("slot")? == Some(true);
    Ok(text(row, "key")?.filter(|_| holds).map(str::to_owned))
}

/// The key of which a row's job holds no slot.
pub(in crate::embedded) fn missing_key(row: &Row<'_>) -> Done<Option<String>> {
    let holds = row.get::<_, Option<bool>>("slot")? == Some(true);
    Ok(text(row, "key")?.filter(|key| !holds && !key.is_empty()).map(str::to_owned))
}

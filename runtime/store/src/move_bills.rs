//! The one way in which bills move from a store to another.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::error::StoreError;
use super::transfer::Transfer;
use gristmill_core::bill::Day;
use gristmill_core::job::Name;

/// Moves these days of a tenant's bill, which are added to what the new store has, and kept there for `keep` after their day: none of them may be
/// longer ago. Returns how many lines moved.
///
/// Interrupted, it can be repeated within an hour: then each line is added once. Later, the day on which it was interrupted may be added twice.
///
/// # Errors
/// A store is unavailable or refuses.
pub async fn move_bills<T: Transfer + ?Sized>(
    from: &T,
    to: &T,
    tenant: &Name,
    days: &RangeInclusive<Day>,
    keep: Duration,
) -> Result<usize, StoreError> {
    let mut moved = 0;
    for taken in from.take_bills(tenant, days, fastrand::u64(..)).await? {
        let (day, mark) = (taken.day, taken.mark);
        moved += taken.lines.len();
        for added in to.add_to_bills(&[taken.into_entry(tenant, keep)]).await? {
            added?;
        }
        from.drop_taken_bill(tenant, day, mark).await?;
    }
    Ok(moved)
}

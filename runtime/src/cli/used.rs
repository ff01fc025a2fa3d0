//! How much of its limits an attempt used, the nearest limit first.

use serde_json::{Value, json};

/// A limit's name, what was used of it, and the limit. All values of one have the same unit.
pub(super) type Use = (&'static str, u64, u64);

/// "41 % of memory, 3 % of time": what is below one per cent is left out.
pub(super) fn in_words(uses: &[Use]) -> String {
    let parts: Vec<_> = by_nearness(uses)
        .into_iter()
        .filter(|(_, percent)| *percent > 0)
        .map(|(name, percent)| format!("{percent} % of {name}"))
        .collect();
    if parts.is_empty() { "less than 1 % of each limit".to_owned() } else { parts.join(", ") }
}

/// The limit that is nearest, for programs.
pub(super) fn nearest(uses: &[Use]) -> Value {
    by_nearness(uses).first().map_or(Value::Null, |(name, percent)| json!({ "limit": name, "percent": percent }))
}

fn by_nearness(uses: &[Use]) -> Vec<(&'static str, u64)> {
    let percent = |used: u64, limit: u64| {
        let percent = u128::from(used) * 100 / u128::from(limit.max(1));
        u64::try_from(percent).unwrap_or(u64::MAX)
    };
    let mut uses: Vec<_> = uses.iter().map(|(name, used, limit)| (*name, percent(*used, *limit))).collect();
    uses.sort_by_key(|(_, percent)| std::cmp::Reverse(*percent));
    uses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_limit_comes_first() {
        let uses = [("fuel", 1, 1000), ("memory", 41, 100), ("time", u64::MAX, u64::MAX)];
        assert_eq!(in_words(&uses), "100 % of time, 41 % of memory");
        assert_eq!(nearest(&uses), json!({ "limit": "time", "percent": 100 }));
        assert_eq!(in_words(&[("fuel", 1, 1000), ("output", 0, 0)]), "less than 1 % of each limit");
        assert_eq!(nearest(&[]), Value::Null);
    }
}

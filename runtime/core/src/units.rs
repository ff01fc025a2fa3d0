//! Quantities as people write them: `"1m30s"`, `"64MiB"`, `"2G"`. One mechanism, four scales.

use std::fmt;
use std::time::Duration;

use super::time::millis;

/// The longest text for which a similar one is sought.
const HINTED_CHARS: usize = 64;

/// How one kind of quantity is written. Values are whole numbers of the scale's base: milliseconds, bytes or pieces.
#[derive(Debug, PartialEq, Eq)]
pub struct Scale {
    /// As in "must be …".
    pub what: &'static str,
    /// As in "such as …", quoted the way it is written in a manifest.
    pub example: &'static str,
    /// Whether a number without a unit means the base.
    pub bare: bool,
    /// Whether parts add up, as in `1m30s`.
    compound: bool,
    /// What is read, with its worth in the base.
    units: &'static [(&'static str, u64)],
    /// What is written, largest first.
    shown: &'static [(&'static str, u64)],
}

/// Milliseconds; always with a unit, because a bare number would be taken for seconds by half of its readers.
pub static DURATION: Scale = Scale {
    what: "a duration",
    example: "\"30s\"",
    bare: false,
    compound: true,
    units: &[("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)],
    shown: &[("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)],
};

/// Bytes; `KB`, `MB`, `GB` are powers of 1000, `KiB`, `MiB`, `GiB` powers of 1024.
pub static SIZE: Scale = Scale {
    what: "a size",
    example: "\"64MiB\"",
    bare: true,
    compound: false,
    units: &[
        ("B", 1),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("kB", 1000),
        ("KB", 1000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
    ],
    shown: &[("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)],
};

/// Pieces, for numbers too long to read.
pub static COUNT: Scale = Scale {
    what: "a count",
    example: "\"500M\"",
    bare: true,
    compound: false,
    units: &[("k", 1000), ("M", 1_000_000), ("G", 1_000_000_000), ("T", 1_000_000_000_000)],
    shown: &[("T", 1_000_000_000_000), ("G", 1_000_000_000), ("M", 1_000_000), ("k", 1000), ("", 1)],
};

/// Pieces, written in digits only.
pub static NUMBER: Scale =
    Scale { what: "a whole number", example: "32", bare: true, compound: false, units: &[], shown: &[("", 1)] };

/// Why a text is no quantity of a scale; says how to write one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {}: {problem}; {}", scale.what, scale.remedy())]
pub struct BadQuantity {
    text: String,
    /// Completes "it is none because …".
    pub problem: String,
    scale: &'static Scale,
}

impl Scale {
    /// Reads a quantity: digits, perhaps a decimal fraction, and a unit; several in a row if the scale adds them up.
    ///
    /// # Errors
    /// Anything else, and what does not fit into 64 bits or is no whole number of the base.
    pub fn parse(&'static self, text: &str) -> Result<u64, BadQuantity> {
        let (mut rest, mut sum) = (text.trim(), 0_u64);
        if rest.is_empty() {
            return Err(self.bad(text, "it is empty"));
        }
        while !rest.is_empty() {
            let (number, tail) = split_at(rest, |c| !c.is_ascii_digit() && c != '.' && c != '_');
            let (unit, tail) = split_at(tail.trim_start(), |c| c.is_ascii_digit());
            let unit = unit.trim_end();
            let part = self.part(number, unit).map_err(|problem| self.bad(text, &problem))?;
            sum = sum.checked_add(part).ok_or_else(|| self.bad(text, "it is too large"))?;
            rest = tail;
            if !rest.is_empty() && !self.compound {
                return Err(self.bad(text, "it has more than one part"));
            }
        }
        Ok(sum)
    }

    /// Whether a value has a unit. Without one it is a plain number.
    pub fn has_units(&self) -> bool {
        !self.units.is_empty()
    }

    fn part(&self, number: &str, unit: &str) -> Result<u64, String> {
        if number.is_empty() {
            return Err("it must begin with a number".into());
        }
        let worth = self.worth(number, unit)?;
        let digits = number.replace('_', "");
        let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
        let scaled: Option<u128> = format!("{whole}{fraction}").parse().ok();
        let scaled = scaled.and_then(|n| n.checked_mul(u128::from(worth))).ok_or("its number cannot be read")?;
        let divisor = u32::try_from(fraction.len()).ok().and_then(|n| 10_u128.checked_pow(n));
        let divisor = divisor.ok_or("its fraction is too long")?;
        if scaled % divisor != 0 {
            return Err("its fraction is too fine".into());
        }
        u64::try_from(scaled / divisor).map_err(|_| "it is too large".into())
    }

    fn worth(&self, number: &str, unit: &str) -> Result<u64, String> {
        if let Some((_, worth)) = self.units.iter().find(|(name, _)| *name == unit) {
            return Ok(*worth);
        }
        match (unit, self.units.first()) {
            ("", _) if self.bare => Ok(1),
            ("", _) => Err(format!("it needs a unit, as in `{number}s`")),
            (_, None) => Err(format!("`{unit}` is too much")),
            (_, Some(_)) => {
                let meant = || self.meant(unit).map(|names| format!(", did you mean `{names}`?"));
                let hint = self.elsewhere(unit).map(|hint| format!(": {hint}")).or_else(meant).unwrap_or_default();
                Err(format!("`{unit}` is no unit{hint}"))
            }
        }
    }

    /// What a unit is that durations have elsewhere.
    fn elsewhere(&self, unit: &str) -> Option<&'static str> {
        let begins = |short: &str| unit.to_lowercase().starts_with(short);
        match unit {
            _ if !self.compound => None,
            "us" | "\u{b5}s" | "\u{3bc}s" | "ns" => Some("the smallest is `ms`"),
            _ if begins("w") => Some("a week is `7d`"),
            _ if begins("mo") || unit == "M" => Some("a month is some days, such as `30d`, and a minute is `1m`"),
            _ if begins("y") => Some("a year is `365d`"),
            _ => None,
        }
    }

    /// The unit in another case, without its `B`, spelled out (`min`, `sec`), or with a typing mistake.
    fn meant(&self, unit: &str) -> Option<String> {
        let names = || self.units.iter().map(|(name, _)| *name);
        let same = names().find(|name| name.eq_ignore_ascii_case(unit));
        let spelled_out = || names().filter(|name| unit.starts_with(name)).max_by_key(|name| name.len());
        let lower = unit.to_ascii_lowercase();
        let begins = |name: &&str| name.ends_with('B') && name.to_ascii_lowercase().starts_with(&lower);
        let cut_off: Vec<_> = names().filter(begins).collect();
        if same.is_none() && !cut_off.is_empty() {
            return Some(cut_off.join("` or `"));
        }
        // Each letter is one letter from each other.
        let mistyped = || nearest(unit, names()).filter(|_| unit.chars().count() > 1);
        same.or_else(mistyped).or_else(spelled_out).map(str::to_owned)
    }

    fn bad(&'static self, text: &str, problem: &str) -> BadQuantity {
        BadQuantity { text: text.into(), problem: problem.into(), scale: self }
    }

    /// How to write one.
    pub fn remedy(&self) -> String {
        let Self { what, example, .. } = self;
        if self.units.is_empty() {
            return format!("write {what} such as {example}");
        }
        let names: Vec<_> = self.units.iter().map(|(name, _)| *name).collect();
        format!("write {what} such as {example} (units: {})", names.join(", "))
    }

    /// Writes a value so that [`Self::parse`] reads the same value back.
    pub fn show(&self, value: u64) -> String {
        if self.compound {
            return self.show_parts(value, usize::MAX);
        }
        let divides = |worth: &u64| value != 0 && value.is_multiple_of(*worth);
        let (name, worth) = self.shown.iter().find(|(_, worth)| divides(worth)).copied().unwrap_or(self.smallest());
        format!("{}{name}", value / worth)
    }

    /// Writes a value for the eye: two leading parts of a long duration, else one decimal place.
    pub fn about(&self, value: u64) -> String {
        // Between one and ten seconds, tenths are read more easily than milliseconds; beyond, neither is needed.
        if self.compound && value >= 10_000 {
            return self.show_parts(value - value % 1000, 2);
        }
        let (name, worth) = self.shown.iter().find(|(_, worth)| value >= *worth).copied().unwrap_or(self.smallest());
        let tenths = (u128::from(value) * 10 + u128::from(worth) / 2) / u128::from(worth);
        match (tenths / 10, tenths % 10) {
            (whole, 0) => format!("{whole}{name}"),
            (whole, tenth) => format!("{whole}.{tenth}{name}"),
        }
    }

    fn show_parts(&self, value: u64, parts: usize) -> String {
        let mut rest = value;
        let mut text = String::new();
        let first = self.shown.iter().position(|(_, worth)| value >= *worth).unwrap_or(self.shown.len());
        for (name, worth) in self.shown.iter().skip(first).take(parts) {
            if rest >= *worth {
                text.push_str(&format!("{}{name}", rest / worth));
                rest %= worth;
            }
        }
        if text.is_empty() { "0s".into() } else { text }
    }

    fn smallest(&self) -> (&'static str, u64) {
        self.shown.last().copied().unwrap_or(("", 1))
    }
}

/// Reads a duration such as `30s`; for command lines.
pub fn duration(text: &str) -> Result<Duration, BadQuantity> {
    DURATION.parse(text).map(Duration::from_millis)
}

/// Writes a duration for the eye, such as `2h5m`.
pub fn about_duration(duration: Duration) -> String {
    DURATION.about(millis(duration))
}

/// Writes a count with all its digits, for the eye: `1,204,000`.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things: `1 job`, `3 jobs`. Whole numbers of any type.
pub fn counted<N: fmt::Display + PartialEq + From<u8>>(count: N, one: &str, many: &str) -> String {
    let things = if count == N::from(1) { one } else { many };
    format!("{count} {things}")
}

/// The choice that `written` was probably meant to be.
pub fn nearest<'a>(written: &str, choices: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters wrong is still a typing mistake; more is another word.
    let allowed = (written.chars().count() / 3).max(1);
    let by_distance = choices.filter_map(|choice| Some((distance(written, choice, allowed)?, choice)));
    by_distance.min().map(|(_, choice)| choice)
}

/// What follows a wrong text where this was probably meant: nothing, or ` (did you mean …?)`.
pub fn hint(near: Option<impl fmt::Display>) -> String {
    near.map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default()
}

/// How many letters differ; `None` if more than `most` do, and of a text that is longer than a hint is worth: strangers write such texts,
/// and the effort grows with the lengths of both.
pub(crate) fn distance(written: &str, choice: &str, most: usize) -> Option<usize> {
    let (length, other) = (written.chars().count(), choice.chars().count());
    if length > HINTED_CHARS || length.abs_diff(other) > most {
        return None;
    }
    Some(strsim::damerau_levenshtein(written, choice)).filter(|distance| *distance <= most)
}

fn split_at(text: &str, end: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(end).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_compared_with_nothing() {
        let (longest, longer) = ("x".repeat(HINTED_CHARS), "x".repeat(HINTED_CHARS + 1));
        for (written, near) in [(&longest, Some(&*longest)), (&longer, None), (&longer.repeat(100_000), None)] {
            assert_eq!(nearest(written, [&*longest].into_iter()), near);
        }
    }

    #[test]
    fn one_thing_is_no_plural() {
        let said = [0_u64, 1, 2].map(|jobs| counted(jobs, "job", "jobs"));
        assert_eq!(said, ["0 jobs", "1 job", "2 jobs"]);
    }

    #[test]
    fn long_counts_are_written_in_groups_of_three_digits() {
        let counts = [0, 999, 1000, 120_400, 1_204_000].map(grouped);
        assert_eq!(counts, ["0", "999", "1,000", "120,400", "1,204,000"]);
    }

    #[test]
    fn quantities_are_read() {
        let cases = [
            (&DURATION, "250ms", 250),
            (&DURATION, "1m30s", 90_000),
            (&DURATION, " 7d ", 604_800_000),
            (&DURATION, "1.5s", 1500),
            (&DURATION, "0s", 0),
            (&SIZE, "64MiB", 64 << 20),
            (&SIZE, "10MB", 10_000_000),
            (&SIZE, "512 KiB", 512 << 10),
            (&SIZE, "100B", 100),
            (&SIZE, "100", 100),
            (&COUNT, "2G", 2_000_000_000),
            (&COUNT, "10_000", 10_000),
            (&NUMBER, "32", 32),
        ];
        for (scale, text, value) in cases {
            assert_eq!(scale.parse(text), Ok(value), "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused_with_the_way_to_write_one() {
        let cases = [
            (&DURATION, "30", "needs a unit, as in `30s`"),
            (&DURATION, "", "it is empty"),
            (&DURATION, "soon", "must begin with a number"),
            (&DURATION, "5min", "`min` is no unit, did you mean `m`?"),
            (&DURATION, "30S", "`S` is no unit, did you mean `s`?"),
            (&DURATION, "1w", "`w` is no unit: a week is `7d`"),
            (&DURATION, "2weeks", "a week is `7d`"),
            (&DURATION, "3months", "a month is some days"),
            (&DURATION, "1M", "a month is some days, such as `30d`, and a minute is `1m`"),
            (&DURATION, "1y", "a year is `365d`"),
            (&DURATION, "500us", "`us` is no unit: the smallest is `ms`"),
            (&DURATION, "5x", "`x` is no unit; write"),
            (&DURATION, "1.0001s", "its fraction is too fine"),
            (&DURATION, "1..5s", "its number cannot be read"),
            (&SIZE, "64mib", "did you mean `MiB`?"),
            (&SIZE, "64Mi", "did you mean `MiB`?"),
            (&SIZE, "64M", "did you mean `MiB` or `MB`?"),
            (&SIZE, "1MiB5B", "more than one part"),
            (&SIZE, "99999999999GiB", "too large"),
            (&COUNT, "2g", "did you mean `G`?"),
            (&NUMBER, "32k", "`k` is too much"),
            (&NUMBER, "-1", "must begin with a number"),
        ];
        for (scale, text, part) in cases {
            let error = scale.parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn what_is_shown_reads_back_the_same() {
        for value in [0, 1, 999, 1000, 1024, 1500, 90_061_001, 64 << 20, 2_500_000_000, u64::MAX] {
            for scale in [&DURATION, &SIZE, &COUNT, &NUMBER] {
                assert_eq!(scale.parse(&scale.show(value)), Ok(value), "{}", scale.show(value));
            }
        }
    }

    #[test]
    fn about_is_short() {
        assert_eq!(DURATION.about(90_061_001), "1d1h");
        assert_eq!(DURATION.about(61_001), "1m1s");
        assert_eq!(DURATION.about(250), "250ms");
        assert_eq!(DURATION.about(3054), "3.1s");
        assert_eq!(DURATION.about(5000), "5s");
        assert_eq!(DURATION.about(12_999), "12s");
        assert_eq!(DURATION.about(0), "0ms");
        assert_eq!(SIZE.about(1536), "1.5KiB");
        assert_eq!(SIZE.about(999), "999B");
        assert_eq!(COUNT.about(2_540_000), "2.5M");
        assert_eq!(NUMBER.about(7), "7");
    }
}

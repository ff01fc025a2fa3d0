//! Numbers as they are written, compared to the last digit, however large they are.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::num::IntErrorKind;

/// A decimal number. It borrows its digits from the text that it was read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Number<'a> {
    is_negative: bool,
    /// How many digits are in front of the point, counted from the first one that is not 0; less than none for 0.001.
    point: i64,
    /// All digits from that one to the last one that is not 0, in two parts. There are none of zero.
    digits: [Cow<'a, [u8]>; 2],
}

impl<'a> Number<'a> {
    /// Of digits with or without a sign, a point and an exponent; `None` for any other text.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let (is_negative, text) = match text.as_bytes().first()? {
            b'-' => (true, text.get(1..)?),
            b'+' => (false, text.get(1..)?),
            _ => (false, text),
        };
        let (text, exponent) = match text.split_once(['e', 'E']) {
            Some((text, exponent)) => (text, read_exponent(exponent)?),
            None => (text, 0),
        };
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let is_number =
            whole.len() + fraction.len() > 0 && whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit());
        is_number.then(|| Self::of(is_negative, whole, fraction, exponent))
    }

    fn of(is_negative: bool, whole: &'a str, fraction: &'a str, exponent: i64) -> Self {
        let places = |digits: &str| i64::try_from(digits.len()).unwrap_or(i64::MAX);
        let (mut whole, mut fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
        let mut point = places(whole);
        if whole.is_empty() {
            let significant = fraction.trim_start_matches('0');
            point = places(significant) - places(fraction);
            fraction = significant;
        }
        if fraction.is_empty() {
            whole = whole.trim_end_matches('0');
        }
        let is_zero = whole.is_empty() && fraction.is_empty();
        let point = if is_zero { 0 } else { point.saturating_add(exponent) };
        let digits = [whole, fraction].map(|digits| Cow::Borrowed(digits.as_bytes()));
        Self { is_negative: is_negative && !is_zero, point, digits }
    }

    /// The same, of a text that need not be kept.
    pub(super) fn into_owned(self) -> Number<'static> {
        let digits = self.digits.map(|digits| Cow::Owned(digits.into_owned()));
        Number { is_negative: self.is_negative, point: self.point, digits }
    }

    fn digits(&self) -> impl Iterator<Item = &u8> {
        self.digits.iter().flat_map(|digits| digits.iter())
    }

    /// 1, 0 or -1.
    fn sign(&self) -> i8 {
        match self.digits().next() {
            None => 0,
            Some(_) if self.is_negative => -1,
            Some(_) => 1,
        }
    }

    pub(super) fn compare(&self, other: &Number<'_>) -> Ordering {
        let by_size = || {
            // Neither ends with zeros: of two that begin alike, the longer one is larger.
            let by_size = self.point.cmp(&other.point).then_with(|| self.digits().cmp(other.digits()));
            if self.is_negative { by_size.reverse() } else { by_size }
        };
        self.sign().cmp(&other.sign()).then_with(by_size)
    }
}

/// An exponent beyond all measure is the largest one.
fn read_exponent(text: &str) -> Option<i64> {
    match text.parse::<i64>() {
        Ok(exponent) => Some(exponent),
        Err(error) => match error.kind() {
            IntErrorKind::PosOverflow => Some(i64::MAX),
            IntErrorKind::NegOverflow => Some(i64::MIN),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_to_the_last_digit() {
        let huge = format!("1{}", "0".repeat(400));
        let in_order = [
            "-1e999999999999999999999",
            "-9007199254740993",
            "-9007199254740992",
            "-1.5",
            "-0.001",
            "0",
            "1e-99999999999999999999",
            "0.1",
            "0.10000000000000000000000000000001",
            "1",
            "3889108265204450030",
            "3889108265204450030.5",
            "3889108265204450031",
            "170141183460469231731687303715884105728",
            "170141183460469231731687303715884105729",
            &huge,
            &format!("{huge}.1"),
        ];
        for (n, one) in in_order.iter().enumerate() {
            for (m, other) in in_order.iter().enumerate() {
                let (left, right) = (Number::parse(one).unwrap(), Number::parse(other).unwrap());
                assert_eq!(left.compare(&right), n.cmp(&m), "{one} {other}");
            }
        }
    }

    #[test]
    fn one_number_may_be_written_in_many_ways() {
        for alike in [
            ["10", "1e1", "10.0", "+010", "100E-1"],
            ["0", "-0", "0.00", "0e5", ".0"],
            ["0.05", "5e-2", ".05", "50.e-3", "+0.050"],
        ] {
            for one in alike {
                for other in alike {
                    let (left, right) = (Number::parse(one).unwrap(), Number::parse(other).unwrap());
                    assert_eq!(left.compare(&right), Ordering::Equal, "{one} {other}");
                }
            }
        }
        for none in ["", "-", ".", "e1", "1e", "1e1.5", "0x10", "1 ", " 1", "1_000", "NaN", "inf", "--1", "ü"] {
            assert_eq!(Number::parse(none), None, "{none}");
        }
    }
}

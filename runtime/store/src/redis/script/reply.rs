//! Takes replies of scripts apart: flat arrays, read from front to back.

use redis::{RedisResult, Value};

use crate::redis::connection::error::unexpected;

/// An array that is being read.
#[derive(Debug)]
pub(in crate::redis) struct Reply(std::vec::IntoIter<Value>);

impl Reply {
    pub(in crate::redis) fn new(value: Value) -> RedisResult<Self> {
        match value {
            Value::Array(values) => Ok(Self(values.into_iter())),
            _ => Err(unexpected("a script did not answer with an array")),
        }
    }

    pub(in crate::redis) fn len(&self) -> usize {
        self.0.len()
    }

    pub(in crate::redis) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An array in this one. Scripts may say that it is empty by `false`, which is cheaper for the server.
    pub(in crate::redis) fn array(&mut self) -> RedisResult<Self> {
        match self.value()? {
            Value::Nil => Ok(Self(Vec::new().into_iter())),
            value => Self::new(value),
        }
    }

    pub(in crate::redis) fn value(&mut self) -> RedisResult<Value> {
        self.0.next().ok_or_else(|| unexpected("a script answered with too few values"))
    }

    pub(in crate::redis) fn bytes(&mut self) -> RedisResult<Vec<u8>> {
        match self.value()? {
            Value::BulkString(bytes) => Ok(bytes),
            _ => Err(unexpected("a script answered without a string where one belongs")),
        }
    }

    pub(in crate::redis) fn text(&mut self) -> RedisResult<String> {
        String::from_utf8(self.bytes()?).map_err(|_| unexpected("a script answered with a string that is no UTF-8"))
    }

    pub(in crate::redis) fn integer(&mut self) -> RedisResult<i64> {
        match self.value()? {
            Value::Int(number) => Ok(number),
            _ => Err(unexpected("a script answered without an integer where one belongs")),
        }
    }

    /// A number that is not negative; as an integer or, like scores, as a string.
    pub(in crate::redis) fn number(&mut self) -> RedisResult<u64> {
        let number = match self.value()? {
            Value::Int(number) => u64::try_from(number).ok(),
            Value::BulkString(digits) => std::str::from_utf8(&digits).ok().and_then(|text| text.parse().ok()),
            _ => None,
        };
        number.ok_or_else(|| unexpected("a script answered without a number where one belongs"))
    }

    /// `count` answers that are `usual`, but for those of which position, counted from 1, and answer are left.
    pub(in crate::redis) fn all_but<A: Clone>(
        mut self,
        answers: usize,
        usual: A,
        read: impl Fn(&mut Self) -> RedisResult<A>,
    ) -> RedisResult<Vec<A>> {
        let mut answers = vec![usual; answers];
        while !self.is_empty() {
            let position = usize::try_from(self.number()?).unwrap_or(usize::MAX);
            let answer = read(&mut self)?;
            let place = answers.get_mut(position.wrapping_sub(1));
            *place.ok_or_else(|| unexpected("a script answered for more than it was asked"))? = answer;
        }
        Ok(answers)
    }

    /// All that is left, as yes (1) and no (0).
    pub(in crate::redis) fn yes_or_no(mut self) -> RedisResult<Vec<bool>> {
        let mut answers = Vec::with_capacity(self.0.len());
        while !self.is_empty() {
            answers.push(self.number()? == 1);
        }
        Ok(answers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_in_order_and_checked() {
        let text = |text: &str| Value::BulkString(text.into());
        let mut reply = Reply::new(Value::Array(vec![Value::Int(7), text("8"), text("x"), Value::Nil])).unwrap();
        assert_eq!((reply.number().unwrap(), reply.number().unwrap()), (7, 8));
        assert!(reply.number().is_err());
        assert!(reply.bytes().is_err());
        assert!(reply.is_empty() && reply.value().is_err());
        assert!(Reply::new(Value::Nil).is_err());
        let mut reply = Reply::new(Value::Array(vec![Value::Nil, Value::Array(vec![text("9")]), text("x")])).unwrap();
        assert!(reply.array().unwrap().is_empty());
        assert_eq!(reply.array().unwrap().number().unwrap(), 9);
        assert!(reply.array().is_err());
    }
}

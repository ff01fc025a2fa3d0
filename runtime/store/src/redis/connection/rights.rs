//! What the user of a connection must be allowed, so that no call ends in the midst.

use redis::{RedisResult, Value};

use super::commands::Commands;

/// Every command that scripts use. `tests/store/it/redis_rights.rs` compares them with the scripts.
const OF_SCRIPTS: &str = "APPEND DEL EXISTS GET GETRANGE HDEL HEXISTS HGET HGETALL HINCRBY HLEN HMGET HSET HSTRLEN LINDEX LLEN LPOS LPUSH LRANGE \
    LREM LSET LTRIM PEXPIRE PEXPIREAT PTTL PUBLISH RPUSH SADD SCARD SET SISMEMBER SMEMBERS SMISMEMBER SREM TIME ZADD ZCARD ZCOUNT ZLEXCOUNT \
    ZMSCORE ZRANGE ZRANGEBYLEX ZRANGEBYSCORE ZREM ZREMRANGEBYSCORE ZREVRANGE ZREVRANGEBYSCORE ZSCORE";

/// Refuses a user who lacks the right to a command, before anything is written. Behind a MULTI that is refused, commands would be carried out
/// one by one; a script that is refused a command stops there. `key` is one below the prefix.
///
/// # Errors
/// A right is missing, or a command is: the error names it. Or the server is unavailable.
pub(super) async fn check_rights(connection: &mut Commands, key: &str) -> RedisResult<()> {
    let mut ask = redis::pipe();
    ask.cmd("MULTI").cmd("EXEC").cmd("EVAL").arg(include_str!("rights.lua")).arg(0).arg(key);
    for command in OF_SCRIPTS.split(' ') {
        ask.arg(command);
    }
    let answers: Vec<RedisResult<Value>> = ask.ignore_errors().query_async(connection).await?;
    answers.into_iter().collect::<RedisResult<Vec<Value>>>().map(drop)
}

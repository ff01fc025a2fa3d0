//! The slots of a Redis Cluster: which one a key or a command has, and which server has which.

use std::sync::Arc;

use redis::{Arg, Cmd, RedisResult, Value, from_redis_value};
use tokio::sync::watch;

use super::error::unexpected;
use super::server::ServerAddress;
use super::server_link::ServerLink;
use crate::redis::script::Call;

/// One of the 16,384 parts of all keys.
pub(in crate::redis) type Slot = u16;

const SLOTS: u16 = 16_384;

/// The slot of a key: by its hash tag, the text within the first braces, if it has one.
pub(in crate::redis) fn slot_of_key(key: &[u8]) -> Slot {
    let tag = key.split_once_at(b'{').and_then(|(_, rest)| rest.split_once_at(b'}')).map(|(tag, _)| tag);
    crc16(tag.filter(|tag| !tag.is_empty()).unwrap_or(key)) % SLOTS
}

trait SplitOnceAt {
    fn split_once_at(&self, byte: u8) -> Option<(&[u8], &[u8])>;
}

impl SplitOnceAt for [u8] {
    fn split_once_at(&self, byte: u8) -> Option<(&[u8], &[u8])> {
        let at = self.iter().position(|one| *one == byte)?;
        Some((self.get(..at)?, self.get(at + 1..)?))
    }
}

/// CRC-16/XMODEM, as the cluster's specification says.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(
            crc ^ (u16::from(*byte) << 8),
            |crc, _| {
                if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
            },
        )
    })
}

/// The slot of a command, by its first key. `None` if it has no key.
fn slot_of(command: &Cmd) -> Option<Slot> {
    let mut words = command.args_iter().map(|word| match word {
        Arg::Simple(word) => word,
        _ => b"",
    });
    let key = match words.next()? {
        b"TIME" | b"INFO" | b"DBSIZE" | b"SCAN" | b"CONFIG" => None,
        b"EVALSHA" => words.nth(2),
        b"MEMORY" | b"ZDIFF" => words.nth(1),
        _ => words.next(),
    };
    key.map(slot_of_key)
}

/// The slot that each call goes to. One without a key goes where the call before it goes; those before the first with a key go to `first`, or
/// else where that one goes, or else to `home`.
pub(in crate::redis) fn slots_of(calls: &[Call], first: Option<Slot>, home: Slot) -> Vec<Slot> {
    let slots: Vec<_> = calls.iter().map(|call| slot_of(&call.command)).collect();
    let mut last = first.or_else(|| slots.iter().flatten().next().copied()).unwrap_or(home);
    let follow = |slot: Option<Slot>| {
        last = slot.unwrap_or(last);
        last
    };
    slots.into_iter().map(follow).collect()
}

/// The map as it is now. `None` before the first one is read.
pub(in crate::redis) type SharedMap = Arc<watch::Sender<Option<Arc<SlotMap>>>>;

/// Which server has which slots, as one server answered.
#[derive(Debug)]
pub(in crate::redis) struct SlotMap {
    /// In the order of their slots.
    pub(in crate::redis) ranges: Vec<SlotRange>,
}

/// The server that a message came from.
pub(in crate::redis) enum Origin {
    Alone,
    /// Each of several passes on what is published at any of them.
    OneOf(Arc<ServerLink>, SharedMap),
}

impl Origin {
    /// Whether it is the server that has this key. If each server sends a message, that is true of one.
    pub(in crate::redis) fn has(&self, key: &str) -> bool {
        match self {
            Self::Alone => true,
            Self::OneOf(server, map) => map.borrow().as_ref().is_some_and(|map| map.has(server, key)),
        }
    }
}

/// Slots that one server has.
#[derive(Debug)]
pub(in crate::redis) struct SlotRange {
    pub(in crate::redis) first: Slot,
    pub(in crate::redis) last: Slot,
    pub(in crate::redis) server: Arc<ServerLink>,
}

impl SlotMap {
    /// The server that has the slot, if one has it.
    pub(in crate::redis) fn server(&self, slot: Slot) -> Option<&Arc<ServerLink>> {
        let range = self.ranges.get(self.ranges.partition_point(|range| range.last < slot))?;
        (range.first <= slot).then_some(&range.server)
    }

    /// Each server.
    pub(in crate::redis) fn servers(&self) -> Vec<&Arc<ServerLink>> {
        let mut servers: Vec<&Arc<ServerLink>> = Vec::new();
        for range in &self.ranges {
            if !servers.iter().any(|known| Arc::ptr_eq(known, &range.server)) {
                servers.push(&range.server);
            }
        }
        servers
    }

    /// Where to listen to these channels: to one with a hash tag at the server that has its slot, because scripts of that slot publish there. To
    /// one without at every server: a script learns only of those that listen where it runs, and passes others over.
    pub(in crate::redis) fn by_listening(&self, channels: &[String]) -> Vec<(Arc<ServerLink>, Vec<String>)> {
        let mut parts = Vec::new();
        for server in self.servers() {
            let is_here = |channel: &&String| !channel.contains('{') || self.has(server, channel);
            let here: Vec<String> = channels.iter().filter(is_here).cloned().collect();
            if !here.is_empty() {
                parts.push((Arc::clone(server), here));
            }
        }
        parts
    }

    /// Whether the key is at this server.
    fn has(&self, server: &Arc<ServerLink>, key: &str) -> bool {
        self.server(slot_of_key(key.as_bytes())).is_some_and(|owner| Arc::ptr_eq(owner, server))
    }

    /// The link to the server at this address, if it is in the map.
    pub(in crate::redis) fn find(&self, address: &ServerAddress) -> Option<Arc<ServerLink>> {
        self.ranges.iter().map(|range| &range.server).find(|server| server.is_at(Some(address))).cloned()
    }
}

/// An element of the answer to `CLUSTER SLOTS`: the first slot, the last one, the primary, its replicas. A server that does not know its own
/// host leaves that out: it is where it was asked.
pub(in crate::redis) fn read_range(
    range: Vec<Value>,
    asked: &ServerAddress,
) -> RedisResult<(Slot, Slot, ServerAddress)> {
    let mut parts = range.into_iter();
    let (Some(first), Some(last), Some(Value::Array(primary))) = (parts.next(), parts.next(), parts.next()) else {
        return Err(unexpected("CLUSTER SLOTS answered something else"));
    };
    let mut primary = primary.into_iter();
    let (Some(host), Some(port)) = (primary.next(), primary.next()) else {
        return Err(unexpected("CLUSTER SLOTS names no server"));
    };
    let host = from_redis_value::<Option<String>>(host)?.filter(|host| !matches!(host.as_str(), "" | "?"));
    let host = host.unwrap_or_else(|| match asked {
        ServerAddress::Tcp(host, _) => host.clone(),
        ServerAddress::Unix(_) => "localhost".to_owned(),
    });
    Ok((from_redis_value(first)?, from_redis_value(last)?, ServerAddress::Tcp(host, from_redis_value(port)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::script::script;

    #[test]
    fn keys_have_the_slots_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot_of_key(b"foo"), 12_182);
        assert_eq!(slot_of_key(b"gm:{foo}:jobs"), 12_182);
        assert_eq!(slot_of_key(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot_of_key(b"foo{{bar}}zap"), crc16(b"{bar") % SLOTS);
    }

    #[test]
    fn a_command_goes_where_its_key_is_or_beside_its_neighbours() {
        let plain =
            |words: &[&str]| Call::plain(words.iter().fold(Cmd::new(), |mut cmd, word| cmd.arg(word).to_owned()));
        let (a, b) = (slot_of_key(b"{a}"), slot_of_key(b"{b}"));
        let calls = [
            plain(&["TIME"]),
            plain(&["HGET", "{a}:x", "{b}"]),
            plain(&["MEMORY", "USAGE", "{b}:x"]),
            plain(&["TIME"]),
            Call::new(script!("look/probe/probe.lua"), &["{a}:p".to_owned()]),
        ];
        assert_eq!(slots_of(&calls, None, 7), [a, a, b, b, a]);
        assert_eq!(slots_of(&calls[..1], None, 7), [7]);
        assert_eq!(slots_of(&calls[..2], Some(9), 7), [9, a]);
    }

    #[test]
    fn a_server_that_does_not_know_its_host_is_where_it_was_asked() {
        let primary = |host| Value::Array(vec![host, Value::Int(7000), Value::BulkString(b"id".to_vec())]);
        let asked = ServerAddress::Tcp("h1".into(), 6379);
        for (host, expected) in [(Value::Nil, "h1"), (Value::BulkString(b"h2".to_vec()), "h2")] {
            let range = vec![Value::Int(0), Value::Int(99), primary(host)];
            assert_eq!(read_range(range, &asked).unwrap(), (0, 99, ServerAddress::Tcp(expected.into(), 7000)));
        }
        assert!(read_range(vec![Value::Int(0)], &asked).is_err());
    }
}

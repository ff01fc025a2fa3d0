//! Unique values, slots of keys, counts, bills and schedules.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redis::{RedisResult, pipe};

use super::{Bytes, DOING, PartitionCheck, Scan, shown};
use crate::fsck::schedule_problem;
use crate::redis::envelope;
use crate::redis::key_names::counter;
use crate::redis::look::inspect::read_pause;
use crate::redis::script::{Call, script};
use crate::{Check, StoreError};
use gristmill_core::job::{JobId, Name};
use gristmill_core::time::Timestamp;

/// How many entries `claims` may have, so that one script may count the running jobs among them.
const CLAIMS: usize = 20_000;

/// The last time that a bucket may be full again at, µs: a time that never comes.
const LAST_US: f64 = 1e17;

/// How long a follow-up job may be on its way.
const STUCK_AFTER: Duration = Duration::from_secs(3600);

/// The member of `due` that stands for the schedules.
const SCHEDULES: &str = "@schedules";

impl PartitionCheck<'_> {
    pub(super) async fn unique_values(&mut self, topic: &Name) -> Result<(), StoreError> {
        let (unique, windows) = (self.keys.unique(topic), self.keys.windows(topic));
        for (key, scan) in [(&unique, Scan::Hash), (&windows, Scan::Sorted)] {
            let mut cursor = 0;
            loop {
                let (next, found) = self.scan(scan, key, cursor).await?;
                let values: Vec<Bytes> = found.into_iter().map(|(value, _)| value).collect();
                self.report.look("unique values", values.len());
                let names = [self.keys.jobs(), unique.clone(), windows.clone(), self.keys.dead(topic)];
                let mut call = Call::new(script!("look/fsck/fsck_unique.lua"), &names);
                call.arg(&values);
                for [value, what, stored] in self.triples(call).await? {
                    let (check, job, detail) = match what.as_str() {
                        "holder" => (Check::UniqueHolderGone, Some(stored.as_str()), "its job is gone or dead".into()),
                        "end" => (Check::UniqueWindowWrong, None, format!("`{stored}`, and `windows` says otherwise")),
                        _ => (Check::UniqueWindowWrong, None, "`windows` has it, and no job holds it".into()),
                    };
                    self.found(check, (Some(topic.as_str()), job), format!("{unique} {value}"), detail);
                }
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Slots of keys, and who waits for them.
    pub(super) async fn slots_of_keys(&mut self) -> Result<(), StoreError> {
        let (slots, behind) = (self.keys.slots(), self.keys.behind());
        for (key, scan) in [(&slots, Scan::Hash), (&behind, Scan::Sorted)] {
            let mut cursor = 0;
            loop {
                let (next, found) = self.scan(scan, key, cursor).await?;
                let names = [self.keys.jobs(), self.keys.keyed(), slots.clone(), behind.clone()];
                let mut call = Call::new(script!("keys/line.lua", "look/fsck/fsck_keys.lua"), &names);
                self.report.look("entries", found.len());
                for (thing, _) in &found {
                    match read_thing(thing, scan == Scan::Hash) {
                        Some(arguments) => drop(call.arg(&arguments[..])),
                        // How many jobs of a topic wait.
                        None if thing.starts_with(b" ") => {}
                        None => self.found(Check::KeyIndexWrong, (None, None), key.clone(), shown(thing)),
                    }
                }
                for [thing, what, id] in self.triples(call).await? {
                    let topic = thing.split(' ').find(|word| !word.is_empty());
                    let (check, detail) = match what.as_str() {
                        "holder" => (Check::SlotHolderGone, "no job with this id has the key"),
                        "slots" => (Check::WaiterWithoutHolder, "no job holds a slot of its key"),
                        "index" => (Check::KeyIndexWrong, "`slots` and `behind` differ on whether jobs wait for it"),
                        _ => (Check::WaiterGone, "no job waits at this place"),
                    };
                    let job = Some(id.as_str()).filter(|id| !id.is_empty());
                    self.found(check, (topic, job), format!("{key} {thing}"), detail);
                }
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Counts of topics, and bills.
    pub(super) async fn counts(&mut self, bills: &[String]) -> Result<(), StoreError> {
        let counts = [(self.keys.counts(), Check::CountMalformed)];
        let bills = bills.iter().map(|key| (key.clone(), Check::BillMalformed));
        for (key, check) in counts.into_iter().chain(bills) {
            let mut cursor = 0;
            loop {
                let (next, fields) = self.scan(Scan::Hash, &key, cursor).await?;
                self.report.look("counts", fields.len());
                for (field, value) in fields {
                    let (field, value) = (shown(&field), shown(&value));
                    if counter(&field, self.tenant).is_none() || value.parse::<u64>().is_err() {
                        let topic = field.split(':').next();
                        self.found(check, (topic, None), format!("{key} {field}"), format!("`{value}`"));
                    }
                }
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Whether as many jobs run as is noted.
    pub(super) async fn running(&mut self) -> Result<(), StoreError> {
        let names = [self.keys.jobs(), self.keys.claims(), self.keys.counts(), self.keys.tenant()];
        let mut call = Call::new(script!("look/fsck/fsck_running.lua"), &names);
        call.arg(CLAIMS);
        let mut reply = self.partition.reply(DOING, call).await?;
        if reply.len() == 1 {
            let key = self.keys.counts();
            self.report.skip(format!(
                "{key}: whether running jobs are counted right, because more than {CLAIMS} jobs were claimed before, or one that runs cannot be read"
            ));
            return Ok(());
        }
        let mut read = || -> RedisResult<_> {
            let mut wrong = Vec::new();
            while !reply.is_empty() {
                wrong.push((reply.text()?, reply.text()?, reply.text()?));
            }
            Ok(wrong)
        };
        for (topic, running, noted) in read().map_err(self.partition.misread(DOING))? {
            let detail = format!("{running} run, and {noted} are noted");
            let of_topic = Some(topic.as_str()).filter(|topic| !topic.is_empty());
            let place = if of_topic.is_some() { self.keys.counts() } else { self.keys.tenant() };
            self.found(Check::RunningMiscounted, (of_topic, None), place, detail);
        }
        Ok(())
    }

    /// When the buckets of keys are full again.
    pub(super) async fn key_rates(&mut self) -> Result<(), StoreError> {
        let (key, mut cursor) = (self.keys.key_rates(), 0);
        loop {
            let (next, members) = self.scan(Scan::Sorted, &key, cursor).await?;
            self.report.look("entries", members.len());
            for (member, full_at) in members {
                let (member, full_at) = (shown(&member), shown(&full_at));
                let topic =
                    member.split_once(' ').filter(|(topic, key)| topic.parse::<Name>().is_ok() && !key.is_empty());
                let is_time = full_at.parse::<f64>().is_ok_and(|full_at| (0.0..=LAST_US).contains(&full_at));
                if topic.is_none() || !is_time {
                    let topic = topic.map(|(topic, _)| topic);
                    self.found(
                        Check::KeyRateMalformed,
                        (topic, None),
                        format!("{key} {member}"),
                        format!("`{full_at}`"),
                    );
                }
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    /// Follow-up jobs on their way to another partition. A poll of any runner pushes what is still there after half a minute.
    pub(super) async fn outbox(&mut self) -> Result<(), StoreError> {
        let (key, mut cursor) = (self.keys.outbox(), 0);
        let mut ask = pipe();
        ask.cmd("HLEN").arg(&key).cmd("TIME");
        let (_, time): (u64, _) = self.query(&ask).await?;
        let now = self.partition.now(time);
        loop {
            let (next, entries) = self.scan(Scan::LargeHash, &key, cursor).await?;
            self.report.look("follow-up jobs", entries.len());
            for (id, stored) in entries {
                let id = shown(&id);
                let read = id.parse::<JobId>().map_err(|error| error.to_string());
                let read =
                    read.and_then(|id| envelope::read(self.tenant, id, &stored).map_err(|error| error.to_string()));
                let (topic, detail) = match read {
                    Err(problem) => (None, problem),
                    Ok(job) if now.since(job.enqueued_at) > STUCK_AFTER => {
                        (Some(job.spec.topic.topic), format!("it was enqueued at {}", job.enqueued_at))
                    }
                    Ok(_) => continue,
                };
                let topic = topic.as_ref().map(Name::as_str);
                self.found(Check::FollowUpStuck, (topic, Some(&id)), key.clone(), detail);
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    /// Whether the topics of which it is noted who paused them are paused.
    pub(super) async fn pauses(&mut self) -> Result<(), StoreError> {
        let mut ask = pipe();
        ask.atomic().cmd("HGETALL").arg(self.keys.pauses()).cmd("SMEMBERS").arg(self.keys.paused());
        let (noted, paused): (BTreeMap<String, String>, BTreeSet<String>) = self.query(&ask).await?;
        for (topic, pause) in noted {
            let detail = match read_pause(&pause) {
                None => format!("`{pause}`"),
                Some(_) if !paused.contains(&topic) => "the topic is not paused".into(),
                Some(_) => continue,
            };
            let place = format!("{} {topic}", self.keys.pauses());
            self.found(Check::PauseMisnoted, (Some(&topic), None), place, detail);
        }
        Ok(())
    }

    pub(super) async fn schedules(&mut self) -> Result<(), StoreError> {
        let keys = self.keys.clone();
        let mut ask = pipe();
        ask.atomic()
            .cmd("HGETALL")
            .arg(keys.schedules())
            .cmd("ZRANGE")
            .arg(keys.ticks())
            .arg(0)
            .arg(-1)
            .arg("WITHSCORES");
        ask.cmd("ZSCORE").arg(keys.due()).arg(SCHEDULES);
        type Reply = (BTreeMap<String, String>, Vec<(String, f64)>, Option<f64>);
        let (records, ticks, due): Reply = self.query(&ask).await?;
        self.report.look("schedules", records.len());
        let at = |ms: f64| Timestamp::from_millis(ms as u64);
        let first = ticks.first().map(|(_, first)| *first);
        let mut ticks: BTreeMap<String, f64> = ticks.into_iter().collect();
        for (id, record) in records {
            let due = ticks.remove(&id).map(at);
            if let Some((check, detail)) = schedule_problem(&record, due) {
                let topic = id.split('/').next();
                self.found(check, (topic, None), format!("{} {id}", keys.schedules()), detail);
            }
        }
        for id in ticks.into_keys() {
            let detail = "there is no such schedule";
            self.found(Check::ScheduleNotDue, (id.split('/').next(), None), format!("{} {id}", keys.ticks()), detail);
        }
        if let Some(first) = first.filter(|first| due.is_none_or(|due| due > first.ceil())) {
            let detail = format!("the first is due at {first} ms, and `due` says {due:?} of `{SCHEDULES}`");
            self.found(Check::DueWrong, (None, None), keys.due(), detail);
        }
        Ok(())
    }

    pub(super) async fn triples(&self, call: Call) -> Result<Vec<[String; 3]>, StoreError> {
        let mut reply = self.partition.reply(DOING, call).await?;
        let mut read = || -> RedisResult<_> {
            let mut triples = Vec::new();
            while !reply.is_empty() {
                triples.push([shown(&reply.bytes()?), shown(&reply.bytes()?), shown(&reply.bytes()?)]);
            }
            Ok(triples)
        };
        read().map_err(self.partition.misread(DOING))
    }
}

/// What the script gets for a field of `slots` or a member of `behind`: what it is, itself, the field of its line, and the key.
fn read_thing(thing: &[u8], is_field: bool) -> Option<[&[u8]; 4]> {
    let blank = |bytes: &[u8]| bytes.iter().position(|byte| *byte == b' ');
    let (kind, line): (&[u8], _) = match thing.strip_prefix(b" ") {
        Some(rest) if is_field => {
            let end = rest.iter().rposition(|byte| *byte == b' ')?;
            let number = rest.get(end + 1..)?;
            let is_number = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
            (b"segment", rest.get(..end).filter(|_| is_number)?)
        }
        Some(_) => return None,
        None => (if is_field { b"line" } else { b"index" }, thing),
    };
    Some([kind, thing, line, line.get(blank(line)? + 1..)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_members_are_read_as_the_scripts_write_them() {
        let read = |thing: &str, is_field| {
            let parts = read_thing(thing.as_bytes(), is_field)?;
            Some(parts.map(|part| String::from_utf8_lossy(part).into_owned()))
        };
        assert_eq!(read("mail a b", true).unwrap(), ["line", "mail a b", "mail a b", "a b"]);
        assert_eq!(read(" mail a b 7", true).unwrap(), ["segment", " mail a b 7", "mail a b", "a b"]);
        assert_eq!(read("mail a 7", false).unwrap(), ["index", "mail a 7", "mail a 7", "a 7"]);
        for (strange, is_field) in
            [("", true), ("mail", true), (" mail", true), (" mail a", true), (" mail 7", true), (" mail a", false)]
        {
            assert!(read(strange, is_field).is_none(), "{strange:?}");
        }
    }
}

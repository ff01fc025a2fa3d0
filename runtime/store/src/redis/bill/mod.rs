//! The bill: a HASH for each tenant and day, which expires.
//!
//! It is in the tenant's first partition, also for topics that are spread over others.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use async_trait::async_trait;
use redis::{RedisResult, from_redis_value, pipe};

use super::key_names::counter;
use super::partitions::RedisStore;
use super::script::{Call, script};
use super::store::Partition;
use crate::bill::KNOWN_FOR;
use crate::clock::{point_ms, wait_ms};
use crate::{BillEntries, BillEntry, StoreError, TakenBill};
use gristmill_core::bill::{BillLine, Cost, Day};
use gristmill_core::job::{Name, TopicId};

const READ: &str = "read a bill";
const ADD: &str = "add to a bill";
const TAKE: &str = "take a bill out";

/// The field of a bill that was taken out that has its mark. No topic has such a name.
const MARK: &str = "";

/// How many days are read in one round trip.
const DAYS: usize = 32;

#[async_trait]
impl BillEntries for RedisStore {
    async fn add_to_bills(&self, entries: &[BillEntry]) -> Result<Vec<Result<Option<u64>, StoreError>>, StoreError> {
        let calls = entries.iter().map(|entry| self.first().entry_call(entry)).collect();
        let added = self.server.link.run_each(ADD, calls).await?;
        let first = self.first();
        let read = |answer| from_redis_value(answer).map(Some).map_err(|error| first.misread(ADD)(error.into()));
        Ok(added.into_iter().map(|answer| answer.and_then(read)).collect())
    }
}

impl Partition {
    fn entry_call(&self, entry: &BillEntry) -> Call {
        let keys = self.keys(&entry.tenant);
        let mut days: BTreeMap<Day, Vec<(String, u64)>> = BTreeMap::new();
        for BillLine { topic, day, cost } in &entry.lines {
            let amounts = Cost::NAMES.iter().zip(cost.amounts()).filter(|(_, amount)| *amount > 0);
            let fields = amounts.map(|(name, amount)| (format!("{}:{name}", topic.topic), amount));
            days.entry(*day).or_default().extend(fields);
        }
        let bills = days.keys().map(|day| keys.bill(*day));
        let names: Vec<String> = [keys.billed(&entry.writer), keys.used()].into_iter().chain(bills).collect();
        let mut call = Call::new(script!("bill/add_to_bill.lua"), &names);
        call.arg(entry.number).arg(wait_ms(KNOWN_FOR)).arg(entry.used_us);
        for (day, fields) in &days {
            call.arg(point_ms(day.end().plus(entry.keep))).arg(fields.len());
            fields.iter().for_each(|(name, amount)| _ = call.arg(name).arg(amount));
        }
        call
    }

    pub(crate) async fn bill(&self, tenant: &Name, days: &RangeInclusive<Day>) -> Result<Vec<BillLine>, StoreError> {
        let (keys, mut lines) = (self.keys(tenant), Vec::new());
        let days: Vec<Day> = (days.start().number()..=days.end().number()).map(Day::from_number).collect();
        for days in days.chunks(DAYS) {
            let mut ask = pipe();
            for day in days {
                ask.cmd("HGETALL").arg(keys.bill(*day));
            }
            let found: Vec<BTreeMap<String, u64>> = self.link.query(READ, &ask).await?;
            for (day, fields) in days.iter().zip(found) {
                lines.extend(read(tenant, *day, &fields));
            }
        }
        Ok(lines)
    }
}

impl Partition {
    pub(crate) async fn take_bills(
        &self,
        tenant: &Name,
        days: &RangeInclusive<Day>,
        mark: u64,
    ) -> Result<Vec<TakenBill>, StoreError> {
        let (keys, mut taken) = (self.keys(tenant), Vec::new());
        let days: Vec<Day> = (days.start().number()..=days.end().number()).map(Day::from_number).collect();
        for days in days.chunks(DAYS) {
            let mut ask = pipe();
            for day in days {
                ask.cmd("EXISTS").arg(keys.bill(*day)).arg(keys.taken_bill(*day));
            }
            let found: Vec<u64> = self.link.query(TAKE, &ask).await?;
            for (day, _) in days.iter().zip(found).filter(|(_, found)| *found > 0) {
                let mut call = Call::new(script!("bill/take_bill.lua"), &[keys.bill(*day), keys.taken_bill(*day)]);
                call.arg(mark.to_string());
                let mut reply = self.reply(TAKE, call).await?;
                let mut fields = BTreeMap::new();
                while !reply.is_empty() {
                    let mut field = || -> RedisResult<(String, u64)> {
                        Ok((reply.text()?, reply.text()?.parse().unwrap_or_default()))
                    };
                    let (name, amount) = field().map_err(self.misread(TAKE))?;
                    fields.insert(name, amount);
                }
                let Some(mark) = fields.remove(MARK) else { continue };
                taken.push(TakenBill { day: *day, mark, lines: read(tenant, *day, &fields).collect() });
            }
        }
        Ok(taken)
    }

    pub(crate) async fn drop_taken_bill(&self, tenant: &Name, day: Day, mark: u64) -> Result<(), StoreError> {
        let mut call = Call::new(script!("bill/drop_bill.lua"), &[self.keys(tenant).taken_bill(day)]);
        call.arg(mark.to_string());
        self.is_one("drop a bill that has moved", call).await.map(drop)
    }
}

/// The lines of a day, in order of topic. Amounts that a later version may add are left out.
fn read(tenant: &Name, day: Day, fields: &BTreeMap<String, u64>) -> impl Iterator<Item = BillLine> + use<> {
    let mut topics: BTreeMap<TopicId, [u64; Cost::NAMES.len()]> = BTreeMap::new();
    for (field, amount) in fields {
        let Some((topic, name)) = counter(field, tenant) else { continue };
        let known = Cost::NAMES.iter().zip(topics.entry(topic).or_default()).find(|(known, _)| **known == name);
        known.into_iter().for_each(|(_, sum)| *sum = *amount);
    }
    topics.into_iter().map(move |(topic, amounts)| BillLine { topic, day, cost: Cost::of_amounts(amounts) })
}

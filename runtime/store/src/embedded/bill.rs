//! The bill: a row for each tenant, day and topic.

use std::ops::RangeInclusive;

use async_trait::async_trait;
use rusqlite::{Row, params};

use super::fault::{Done, Fault};
use super::file::request::Weight;
use super::row::ms;
use super::store::EmbeddedStore;
use super::work::Work;
use crate::bill::KNOWN_FOR;
use crate::{BillEntries, BillEntry, Bills, StoreError, TakenBill};
use gristmill_core::bill::{BillLine, Cost, Day};
use gristmill_core::job::{Name, TopicId};

/// Notes the number of an entry. Changes nothing if it was added before.
const NOTE: &str = "INSERT INTO bill_entries (tenant, writer, number, until) VALUES (?1, ?2, ?3, ?4)
                    ON CONFLICT (tenant, writer) DO UPDATE SET number = excluded.number, until = excluded.until
                        WHERE number < excluded.number";

/// Forgets numbers whose time is over.
const FORGET: &str = "DELETE FROM bill_entries WHERE until <= ?1";

/// Adds to a line.
const ADD: &str = "INSERT INTO bills (tenant, day, topic, until, attempts, fuel, memory_kib_ms, run_us, bytes_in, bytes_out, requests)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
                   ON CONFLICT (tenant, day, topic) DO UPDATE SET until = excluded.until,
                       attempts = attempts + excluded.attempts, fuel = fuel + excluded.fuel,
                       memory_kib_ms = memory_kib_ms + excluded.memory_kib_ms, run_us = run_us + excluded.run_us,
                       bytes_in = bytes_in + excluded.bytes_in, bytes_out = bytes_out + excluded.bytes_out,
                       requests = requests + excluded.requests";

/// The lines of some days.
const READ: &str = "SELECT day, topic, attempts, fuel, memory_kib_ms, run_us, bytes_in, bytes_out, requests FROM bills
                    WHERE tenant = ?1 AND day BETWEEN ?2 AND ?3 AND until > ?4 ORDER BY day, topic";

/// The column of the mark among those of [`READ_TAKEN`].
const MARK: usize = 2 + Cost::NAMES.len();

/// Drops lines whose time is over, a bounded number.
const EXPIRE: &str = "DELETE FROM bills WHERE (tenant, day, topic) IN
                          (SELECT tenant, day, topic FROM bills WHERE until <= ?1 ORDER BY until LIMIT ?2)";

/// Sets the lines of days aside of which none is.
const TAKE: &str = "INSERT INTO taken_bills (tenant, day, topic, until, attempts, fuel, memory_kib_ms, run_us, bytes_in, bytes_out, requests, mark)
                    SELECT tenant, day, topic, until, attempts, fuel, memory_kib_ms, run_us, bytes_in, bytes_out, requests, ?5 FROM bills
                    WHERE tenant = ?1 AND day BETWEEN ?2 AND ?3 AND until > ?4
                        AND day NOT IN (SELECT day FROM taken_bills WHERE tenant = ?1)";

/// Removes the lines that were set aside with a mark.
const REMOVE_TAKEN: &str = "DELETE FROM bills WHERE tenant = ?1 AND day IN
                                (SELECT day FROM taken_bills WHERE tenant = ?1 AND mark = ?2)";

/// The lines of some days that are set aside.
const READ_TAKEN: &str =
    "SELECT day, topic, attempts, fuel, memory_kib_ms, run_us, bytes_in, bytes_out, requests, mark FROM taken_bills
                          WHERE tenant = ?1 AND day BETWEEN ?2 AND ?3 ORDER BY day, topic";

/// Drops the lines of a day that are set aside.
const DROP_TAKEN: &str = "DELETE FROM taken_bills WHERE tenant = ?1 AND day = ?2 AND mark = ?3";

/// Drops all whose time is over. There are none, unless a copy was interrupted and not run again.
const EXPIRE_TAKEN: &str = "DELETE FROM taken_bills WHERE until <= ?1";

#[async_trait]
impl Bills for EmbeddedStore {
    async fn bill(&self, tenant: &Name, days: &RangeInclusive<Day>) -> Result<Vec<BillLine>, StoreError> {
        let (tenant, days) = (tenant.clone(), days.clone());
        self.read_list("read a bill", move |connection, now| {
            let mut select = connection.prepare_cached(READ)?;
            let mut rows =
                select.query(params![tenant.as_str(), days.start().number(), days.end().number(), ms(now)])?;
            let mut lines = Vec::new();
            while let Some(row) = rows.next()? {
                lines.push(read(row, &tenant)?);
            }
            Ok(lines)
        })
        .await
    }
}

#[async_trait]
impl BillEntries for EmbeddedStore {
    async fn add_to_bills(&self, entries: &[BillEntry]) -> Result<Vec<Result<Option<u64>, StoreError>>, StoreError> {
        const DOING: &str = "add to a bill";
        let mut adding = Vec::with_capacity(entries.len());
        for entry in entries {
            let (entry, weight) = (entry.clone(), Weight { jobs: entry.lines.len(), bytes: 0 });
            adding.push(self.ask(weight, move |work| work.add_to_bill(&entry)).await);
        }
        let mut answers = Vec::with_capacity(adding.len());
        for added in adding {
            answers.push(self.answer(DOING, added).await.map(|()| None));
        }
        Ok(answers)
    }
}

impl Work<'_> {
    fn add_to_bill(&self, BillEntry { tenant, writer, number, lines, keep, .. }: &BillEntry) -> Done<()> {
        let (tenant, now) = (tenant.as_str(), self.now());
        let (number, known_until) = (i64::try_from(*number).unwrap_or(i64::MAX), ms(now.plus(KNOWN_FOR)));
        self.connection.prepare_cached(FORGET)?.execute([ms(now)])?;
        let note = params![tenant, writer.as_str(), number, known_until];
        if self.connection.prepare_cached(NOTE)?.execute(note)? == 0 {
            return Ok(());
        }
        let mut add = self.connection.prepare_cached(ADD)?;
        for BillLine { topic, day, cost } in lines {
            let [a, b, c, d, e, f, g] = cost.amounts().map(|amount| i64::try_from(amount).unwrap_or(i64::MAX));
            let (topic, until) = (topic.topic.as_str(), ms(day.end().plus(*keep)));
            add.execute(params![tenant, day.number(), topic, until, a, b, c, d, e, f, g])?;
        }
        Ok(())
    }

    pub(super) fn take_bills(&self, tenant: &Name, days: &RangeInclusive<Day>, mark: u64) -> Done<Vec<TakenBill>> {
        let (of, first, last, mark) = (tenant.as_str(), days.start().number(), days.end().number(), mark.to_string());
        self.connection.prepare_cached(TAKE)?.execute(params![of, first, last, ms(self.now()), mark])?;
        self.connection.prepare_cached(REMOVE_TAKEN)?.execute(params![of, mark])?;
        let mut select = self.connection.prepare_cached(READ_TAKEN)?;
        let mut rows = select.query(params![of, first, last])?;
        let mut taken: Vec<TakenBill> = Vec::new();
        while let Some(row) = rows.next()? {
            let line = read(row, tenant)?;
            let mark = row.get::<_, String>(MARK)?.parse().unwrap_or_default();
            match taken.last_mut().filter(|taken| taken.day == line.day) {
                Some(taken) => taken.lines.push(line),
                None => taken.push(TakenBill { day: line.day, mark, lines: vec![line] }),
            }
        }
        Ok(taken)
    }

    pub(super) fn drop_taken_bill(&self, tenant: &Name, day: Day, mark: u64) -> Done<()> {
        let mut drop_taken = self.connection.prepare_cached(DROP_TAKEN)?;
        drop_taken.execute(params![tenant.as_str(), day.number(), mark.to_string()])?;
        Ok(())
    }

    /// Drops lines whose time is over, at most `limit`.
    pub(super) fn expire_bills(&self, limit: i64) -> Done<usize> {
        self.connection.prepare_cached(EXPIRE_TAKEN)?.execute([ms(self.now())])?;
        Ok(self.connection.prepare_cached(EXPIRE)?.execute([ms(self.now()), limit])?)
    }
}

fn read(row: &Row<'_>, tenant: &Name) -> Done<BillLine> {
    let text: String = row.get(1)?;
    let topic = text.parse::<Name>().map_err(|error| Fault::Refused(format!("a line of the bill: {error}")))?;
    let mut amounts = [0; Cost::NAMES.len()];
    for (column, amount) in amounts.iter_mut().enumerate() {
        *amount = u64::try_from(row.get::<_, i64>(column + 2)?).unwrap_or_default();
    }
    let (topic, day) = (TopicId { tenant: tenant.clone(), topic }, Day::from_number(row.get(0)?));
    Ok(BillLine { topic, day, cost: Cost::of_amounts(amounts) })
}

//! The limits that hold for all topics of a tenant together: what is used of budgets is in the file, how many jobs run in memory.

use rusqlite::{Connection, OptionalExtension, params};

use crate::budget::{BudgetUse, hour_of};
use crate::embedded::fault::Done;
use crate::embedded::memory::topics::Number;
use crate::embedded::row::whole;
use crate::embedded::work::Work;
use gristmill_core::job::Name;
use gristmill_core::topic::TenantFleetLimits;

/// What a tenant has used of its budgets, and what these are.
const READ: &str = "SELECT day, jobs, hour, fuel, jobs_per_day, fuel_per_hour FROM tenant_use WHERE tenant = ?1";

/// Notes what claims have used, and what the last of them may.
const SAVE: &str = "INSERT INTO tenant_use (tenant, day, jobs, hour, fuel, jobs_per_day, fuel_per_hour)
                        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                    ON CONFLICT (tenant) DO UPDATE SET day = excluded.day, jobs = excluded.jobs, hour = excluded.hour,
                        fuel = excluded.fuel, jobs_per_day = excluded.jobs_per_day, fuel_per_hour = excluded.fuel_per_hour";

/// Adds the fuel of an attempt that ended in an hour.
const ADD_FUEL: &str =
    "UPDATE tenant_use SET fuel = CASE hour WHEN ?2 THEN fuel ELSE 0 END + ?3, hour = ?2 WHERE tenant = ?1";

/// Forgets tenants of which no claim has brought limits for days.
const FORGET: &str = "DELETE FROM tenant_use WHERE day < ?1 - 3";

/// How far the budgets of a tenant are used, and what they are.
pub(in crate::embedded) fn read_use(connection: &Connection, tenant: &Name) -> Done<(BudgetUse, TenantFleetLimits)> {
    let mut read = connection.prepare_cached(READ)?;
    let found = read.query_row([tenant.as_str()], |row| {
        let number = |column| row.get(column).map(whole);
        let used = BudgetUse { day: number(0)?, jobs: number(1)?, hour: number(2)?, fuel: number(3)? };
        let most = |column| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(column)?.map(whole));
        Ok((used, TenantFleetLimits { max_running: None, jobs_per_day: most(4)?, fuel_per_hour: most(5)? }))
    });
    Ok(found.optional()?.unwrap_or_default())
}

impl Work<'_> {
    /// How many jobs of the tenant may start.
    pub(in crate::embedded) fn allowed_of_tenant(&mut self, tenant: &Name, limits: TenantFleetLimits) -> Done<u64> {
        let used = self.budget_use(tenant, limits)?;
        if used.used_up(limits).is_some() {
            return Ok(0);
        }
        let running =
            limits.max_running.map(|most| u64::from(most).saturating_sub(self.topics.tenant_run(tenant).running));
        let today = limits.jobs_per_day.map(|most| most - used.jobs);
        Ok(running.into_iter().chain(today).min().unwrap_or(u64::MAX))
    }

    /// How far the budgets of the tenant are used by now. It has not used any that is not among its limits.
    pub(in crate::embedded) fn budget_use(&self, tenant: &Name, limits: TenantFleetLimits) -> Done<BudgetUse> {
        let has_budget = limits.jobs_per_day.is_some() || limits.fuel_per_hour.is_some();
        let used = if has_budget { read_use(self.connection, tenant)?.0 } else { BudgetUse::default() };
        Ok(used.at(self.now()))
    }

    /// Notes that this many jobs of the tenant start.
    pub(in crate::embedded) fn note_started_of_tenant(
        &self,
        tenant: &Name,
        limits: TenantFleetLimits,
        count: usize,
    ) -> Done<()> {
        let (before, said) = read_use(self.connection, tenant)?;
        let mut used = before.at(self.now());
        used.jobs += count as u64;
        let limits = TenantFleetLimits { max_running: None, ..limits };
        if (used, limits) == (before, said) {
            return Ok(());
        }
        let whole = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let BudgetUse { day, jobs, hour, fuel } = used;
        self.connection.prepare_cached(SAVE)?.execute(params![
            tenant.as_str(),
            whole(day),
            whole(jobs),
            whole(hour),
            whole(fuel),
            limits.jobs_per_day.map(whole),
            limits.fuel_per_hour.map(whole),
        ])?;
        if day != before.day {
            self.connection.prepare_cached(FORGET)?.execute([whole(day)])?;
        }
        Ok(())
    }

    /// Counts the fuel of an attempt that has ended.
    pub(in crate::embedded) fn add_fuel(&mut self, topic: Number, fuel: u64) -> Done<()> {
        if fuel > 0 {
            let (hour, fuel) = (hour_of(self.now()), i64::try_from(fuel).unwrap_or(i64::MAX));
            let tenant = self.topics.get(topic).id.tenant.as_str();
            self.connection.prepare_cached(ADD_FUEL)?.execute(params![
                tenant,
                i64::try_from(hour).unwrap_or(0),
                fuel
            ])?;
        }
        Ok(())
    }

    /// Has `count` topics of the tenant claimed from again that wait until a job of it ends.
    pub(in crate::embedded) fn unlimit_waiting(&mut self, tenant: &Name, count: u64) {
        let mut left = count;
        while left > 0
            && let Some(topic) = self.topics.next_waiting(tenant)
        {
            left -= u64::from(self.unlimit(topic));
        }
    }
}

//! `gristmill bill`: what attempts cost.

use std::time::Duration;

use super::exit::{Exit, Usage};
use super::global::Global;
use super::table::Table;
use super::{screen, token};
use gristmill_config::units;
use gristmill_core::bill::{BillLine, Cost, DAYS_AT_ONCE, Day};
use gristmill_core::job::Name;
use gristmill_core::time::Timestamp;
use gristmill_store::{Produce, StoreError};

/// Show what attempts cost, by tenant, day and topic
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Days are UTC. MEMORY is the peak of each attempt times its run time, in MiB
times seconds. --json and --csv show all amounts to the unit.

Examples:
  gristmill bill --tenant acme
  gristmill bill --from 2026-11-01 --to 2026-11-30 --csv > november.csv
  gristmill bill --json | jq -s 'map(.fuel) | add'")]
pub(super) struct Args {
    /// Only this tenant [default: every tenant that the store has]
    #[arg(long, value_name = "NAME")]
    tenant: Option<Name>,
    /// The first day, such as 2026-11-01 [default: the first of the last day's month]
    #[arg(long, value_name = "DAY")]
    from: Option<Day>,
    /// The last day [default: today]
    #[arg(long, value_name = "DAY")]
    to: Option<Day>,
    /// Write CSV, with a header
    #[arg(long)]
    csv: bool,
}

pub(super) async fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    let to = args.to.unwrap_or_else(|| Day::of(Timestamp::now()));
    let from = args.from.unwrap_or_else(|| to.first_of_month());
    if from > to {
        return Err(Usage(format!("--from is {from}, after --to, which is {to}")).into());
    }
    if args.csv && global.json {
        return Err(Usage("say one of --csv and --json".into()).into());
    }
    let manifest = global.manifest_without_secrets()?;
    let mut lines = Vec::new();
    if let Some(reached) = global.reach_if_any(&manifest).await? {
        let tenants = match (&args.tenant, &reached.server) {
            (Some(tenant), _) => vec![tenant.clone()],
            (None, Some(server)) => server.visible_tenants().await?,
            (None, None) => reached.store.tenants().await?,
        };
        for tenant in tenants {
            lines.extend(bill(&*reached.store, &tenant, from, to).await?);
        }
        if lines.is_empty() && !global.json && !args.csv {
            token::note_unknown_tenant(&*reached.store, &manifest, args.tenant.as_ref()).await;
        }
    }
    if args.csv {
        screen::result(BillLine::csv(&lines).as_bytes())?;
    } else if global.json {
        lines.iter().try_for_each(|line| screen::document(&serde_json::to_value(line)?))?;
    } else if lines.is_empty() {
        screen::note(&format!("there were no attempts from {from} to {to}"));
    } else {
        table(&lines).print()?;
    }
    Ok(Exit::Done)
}

/// The bill of any number of days, asked for part by part.
async fn bill(store: &dyn Produce, tenant: &Name, from: Day, to: Day) -> Result<Vec<BillLine>, StoreError> {
    let (step, mut lines) = (u32::try_from(DAYS_AT_ONCE).unwrap_or(1), Vec::new());
    for first in (from.number()..=to.number()).step_by(DAYS_AT_ONCE) {
        let last = Day::from_number(first.saturating_add(step - 1)).min(to);
        lines.extend(store.bill(tenant, &(Day::from_number(first)..=last)).await?);
    }
    Ok(lines)
}

fn table(lines: &[BillLine]) -> Table {
    let titles = ["TENANT", "DAY", "TOPIC", ">ATTEMPTS", ">FUEL", ">MEMORY", ">RUN TIME", ">IN", ">OUT", ">REQUESTS"];
    let (mut table, mut total) = (Table::new(&titles), Cost::default());
    let mut row = |tenant: &str, day: String, topic: &str, cost: &Cost| {
        let Cost { attempts, fuel, memory_kib_ms, run_us, bytes_in, bytes_out, requests } = *cost;
        table.row([
            tenant.to_owned(),
            day,
            topic.to_owned(),
            attempts.to_string(),
            units::COUNT.about(fuel),
            format!("{} MiB·s", units::COUNT.about(memory_kib_ms / (1024 * 1000))),
            units::about_duration(Duration::from_millis(run_us / 1000)),
            units::SIZE.about(bytes_in),
            units::SIZE.about(bytes_out),
            requests.to_string(),
        ]);
    };
    for BillLine { topic, day, cost } in lines {
        row(topic.tenant.as_str(), day.to_string(), topic.topic.as_str(), cost);
        total += *cost;
    }
    if lines.len() > 1 {
        row("total", String::new(), "", &total);
    }
    table
}

//! `gristmill stats --history`: what happened minute by minute and day by day, as a server remembers it.

use std::time::Duration;

use super::exit::{Exit, NoServer};
use super::global::{Global, TopicName, whose};
use super::screen;
use super::table::Table;
use gristmill_config::{Manifest, units};
use gristmill_core::job::Name;
use gristmill_server::{History, HistoryDay, Minute};

pub(super) async fn run(
    global: &Global,
    manifest: &Manifest,
    tenant: Option<&Name>,
    topic: Option<&TopicName>,
) -> anyhow::Result<Exit> {
    let Some(server) = global.server(manifest).await? else {
        let problem = "the last minutes are in the memory of a server, and this command found none: name it with --server URL. \
            `gristmill bill` has the days without one";
        return Err(NoServer(problem).into());
    };
    let (tenant, topic) = whose(topic, tenant)?;
    let history = server.history(&tenant, topic.as_ref()).await?;
    if global.json {
        screen::document(&serde_json::to_value(&history)?)?;
        return Ok(Exit::Done);
    }
    print(&history)?;
    Ok(Exit::Done)
}

/// The minutes in which something happened, and below them the days.
fn print(history: &History) -> anyhow::Result<()> {
    let History { since_ms, minutes, days } = history;
    let busy: Vec<&Minute> = minutes.iter().filter(|minute| minute.is_busy()).collect();
    match since_ms {
        None => screen::note("the server has no minutes of it"),
        Some(since) if busy.is_empty() => screen::note(&format!("nothing has happened since {since}")),
        Some(since) => {
            table(&busy).print()?;
            screen::note(&format!("minutes in which something happened, since {since}"));
        }
    }
    if !days.is_empty() {
        screen::line("")?;
        by_day(days).print()?;
    }
    Ok(())
}

fn table(minutes: &[&Minute]) -> Table {
    let mut table = Table::new(&["UNTIL", ">ENQUEUED", ">DONE", ">FAILED", ">DEAD", ">READY", ">RUNNING"]);
    for Minute { at_ms, enqueued, done, failed, dead, ready, running } in minutes {
        let counts = [enqueued, done, failed, dead, ready, running].map(|count| units::grouped(*count));
        table.row(std::iter::once(at_ms.to_string()).chain(counts));
    }
    table
}

fn by_day(days: &[HistoryDay]) -> Table {
    let mut table = Table::new(&["DAY", ">ATTEMPTS", ">FUEL", ">RUN TIME", ">REQUESTS"]);
    for HistoryDay { day, cost } in days {
        table.row([
            day.to_string(),
            units::grouped(cost.attempts),
            units::COUNT.about(cost.fuel),
            units::about_duration(Duration::from_millis(cost.run_us / 1000)),
            units::grouped(cost.requests),
        ]);
    }
    table
}

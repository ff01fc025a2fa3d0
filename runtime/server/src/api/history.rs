//! What happened lately: minutes from this server's memory, days from the bill.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::Query;

use crate::auth::allowed::{Allowed, scope};
use crate::extract::Head;
use crate::problem::Problem;
use crate::routes::Routes;
use crate::wire::history::{History, HistoryDay, HistoryWanted};
use gristmill_core::bill::{Cost, Day};
use gristmill_core::job::{Name, TopicId};
use gristmill_core::time::Timestamp;

/// The days of an answer, today among them.
const DAYS: u32 = 31;

const ABOUT: &str = "Minutes are in this server's memory: it reads the totals of the store once a minute, and begins anew when it starts. \
    Days are those of the bill.";

pub(crate) fn routes() -> Routes {
    Routes::of("topics")
        .get("/tenants/{tenant}/history", history, "What happened in the last minutes and days")
        .description(ABOUT)
}

async fn history(
    Allowed { over: tenant, state, .. }: Allowed<scope::Read, Name>,
    Head(Query(HistoryWanted { topic })): Head<Query<HistoryWanted>>,
) -> Result<Json<History>, Problem> {
    let topic = topic.map(|topic| TopicId { tenant: tenant.clone(), topic });
    let today = Day::of(Timestamp::now());
    let lines = state.store.bill(&tenant, &(Day::from_number(today.number().saturating_sub(DAYS - 1))..=today)).await?;
    let mut days = BTreeMap::<Day, Cost>::new();
    for line in lines.into_iter().filter(|line| topic.as_ref().is_none_or(|topic| line.topic == *topic)) {
        *days.entry(line.day).or_default() += line.cost;
    }
    let days = days.into_iter().map(|(day, cost)| HistoryDay { day, cost }).collect();
    let (since_ms, minutes) = match topic {
        Some(topic) => state.minutes.of_topic(&topic),
        None => state.minutes.of_tenant(&tenant),
    };
    Ok(Json(History { since_ms, minutes, days }))
}

//! The bill of a tenant, as JSON or CSV.

use axum::Json;
use axum::extract::Query;
use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;

use crate::auth::allowed::{Allowed, scope};
use crate::extract::{Head, names};
use crate::openapi::{Csv, Described};
use crate::problem::{Code, Problem};
use crate::routes::Routes;
use crate::wire::bill::{Bill, BillFormat, BillWanted};
use gristmill_core::bill::{BillLine, Cost, DAYS_AT_ONCE, Day};
use gristmill_core::job::Name;
use gristmill_core::time::Timestamp;

const ABOUT: &str =
    "Days are UTC. What ended in the last second or so may be missing. docs/reference/metering.md says what counts.";

pub(crate) fn routes() -> Routes {
    Routes::of("bill")
        .get("/tenants/{tenant}/bill", bill, "What a tenant's attempts cost, by topic and day")
        .description(ABOUT)
}

async fn bill(
    Allowed { over: tenant, state, .. }: Allowed<scope::Read, Name>,
    Head(Query(BillWanted { from, to, format })): Head<Query<BillWanted>>,
    headers: HeaderMap,
) -> Result<Described<(Json<Bill>, Csv)>, Problem> {
    let to = to.unwrap_or_else(|| Day::of(Timestamp::now()));
    let from = from.unwrap_or_else(|| to.first_of_month());
    within_days(from, to)?;
    let lines = state.store.bill(&tenant, &(from..=to)).await?;
    let answer = match format.unwrap_or_else(|| accepted(&headers)) {
        BillFormat::Csv => ([(header::CONTENT_TYPE, Csv::MEDIA_TYPE)], BillLine::csv(&lines)).into_response(),
        BillFormat::Json => {
            let mut total = Cost::default();
            lines.iter().for_each(|line| total += line.cost);
            Json(Bill { tenant, from, to, lines, total }).into_response()
        }
    };
    Ok(answer.into())
}

/// CSV for a client that names it, and not JSON.
fn accepted(headers: &HeaderMap) -> BillFormat {
    let is_csv = names(headers, "text/csv") && !names(headers, "application/json");
    if is_csv { BillFormat::Csv } else { BillFormat::Json }
}

fn within_days(from: Day, to: Day) -> Result<(), Problem> {
    let problem = if from > to {
        format!("`from` is {from}, after `to`, which is {to}")
    } else if (to.number() - from.number()) as usize >= DAYS_AT_ONCE {
        format!("from {from} to {to} are more than {DAYS_AT_ONCE} days: ask for some of them at a time")
    } else {
        return Ok(());
    };
    Err(Problem::new(Code::BadRequest, problem))
}

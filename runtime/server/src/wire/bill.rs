//! Bills.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use gristmill_core::bill::{BillLine, Cost, Day};
use gristmill_core::job::Name;

/// Which part of the bill, and how it is written.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BillWanted {
    /// The first day; without it, the first of the month of the last day.
    #[serde(default)]
    pub(crate) from: Option<Day>,
    /// The last day, at most 366 days with the first one; without it, today by the server's clock.
    #[serde(default)]
    pub(crate) to: Option<Day>,
    /// Takes the place of `Accept`.
    #[serde(default)]
    pub(crate) format: Option<BillFormat>,
}

/// How a bill is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub(crate) enum BillFormat {
    Json,
    Csv,
}

/// What a tenant's attempts cost, by topic and day.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Bill {
    pub(crate) tenant: Name,
    /// The first day.
    pub(crate) from: Day,
    /// The last day.
    pub(crate) to: Day,
    /// In order of day and topic. Topics have lines for days with attempts.
    pub(crate) lines: Vec<BillLine>,
    /// All lines together.
    pub(crate) total: Cost,
}

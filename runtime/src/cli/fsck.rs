//! `gristmill fsck`: looks for damage in the stores.

use anyhow::{Context, ensure};
use serde_json::json;

use super::document::with;
use super::exit::Exit;
use super::global::Global;
use super::screen;
use crate::open::{self, Layout};
use gristmill_config::{StoreAddress, StoreSettings, units};
use gristmill_store::FsckReport;

/// Look for damage in the store: jobs in no place or in two, running ones without a lease, wrong counts and more
///
/// Changes nothing, and may run beside servers: it reads the Redis or the SQLite file itself, in small steps, and looks
/// again at what seems wrong. Of several stores, it looks at each.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Ends with 1 if something was found. docs/guides/fsck.md lists what is looked for.

Examples:
  gristmill fsck
  gristmill fsck --store redis://127.0.0.1:6379/0 --json")]
pub(super) struct Args {}

pub(super) async fn run(global: &Global, Args {}: Args) -> anyhow::Result<Exit> {
    let manifest = global.manifest_without_secrets()?;
    let mut exit = Exit::Done;
    for settings in Layout::of(&manifest).all() {
        let report = look(settings).await.with_context(|| format!("failed to check {}", settings.address))?;
        if !report.is_clean() {
            exit = Exit::Failed;
        }
        print(global, &settings.address.to_string(), &report)?;
    }
    Ok(exit)
}

async fn look(settings: &StoreSettings) -> anyhow::Result<FsckReport> {
    if let StoreAddress::File(path) = &settings.address {
        ensure!(path.exists(), "there is no file; `gristmill run` or the first `gristmill push` makes it");
    }
    Ok(open::fsck(settings).await?)
}

fn print(global: &Global, store: &str, report: &FsckReport) -> anyhow::Result<()> {
    for finding in &report.findings {
        let check = finding.check;
        if global.json {
            let words = [("wrong", check.wrong()), ("means", check.means()), ("remedy", check.remedy())];
            let words = words.map(|(name, text)| (name, text.into()));
            let finding = with(serde_json::to_value(finding)?, words);
            screen::document(&with(finding, [("store", store.into())]))?;
        } else {
            screen::line(&format!("{}\n  {}: {}", screen::clean(&finding.to_string()), check.wrong(), check.means()))?;
            screen::line(&format!("  remedy: {}", check.remedy()))?;
        }
    }
    let FsckReport { looked_at, findings, skipped, .. } = report;
    let found = findings.len() as u64 + report.unnamed();
    if global.json {
        return screen::document(
            &json!({ "store": store, "looked_at": looked_at, "found": found, "named": findings.len(), "skipped": skipped }),
        );
    }
    skipped.iter().for_each(|what| screen::note(&format!("note: not looked at: {what}")));
    let looked_at: Vec<_> = looked_at.iter().map(|(what, count)| units::counted(*count, &one_of(what), what)).collect();
    let looked_at = if looked_at.is_empty() { "an empty store".into() } else { looked_at.join(", ") };
    let found = match found {
        0 => "nothing is wrong".to_owned(),
        found if found == findings.len() as u64 => units::counted(found, "finding", "findings"),
        found => format!("{found} findings, of which {} are shown", findings.len()),
    };
    screen::line(&format!("{store}: looked at {looked_at}: {found}"))
}

/// One of the things that a report counts.
fn one_of(things: &str) -> String {
    match things.strip_suffix("ies") {
        Some(stem) => format!("{stem}y"),
        None => things.trim_end_matches('s').to_owned(),
    }
}

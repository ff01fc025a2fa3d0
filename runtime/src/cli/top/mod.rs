//! `gristmill top`: topics, running jobs, workers and dead jobs in a terminal.

mod app;
mod draw;
mod events;
mod list;
mod source;
#[cfg(test)]
mod tests;
mod view;

use std::io::IsTerminal;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use self::app::{App, Ask};
use self::source::{Seen, Source};
use self::view::View;
use super::exit::{Exit, Usage};
use super::global::Global;
use super::stats::MissingTenants;
use super::table::Table;
use super::topic_line::Topics;
use super::{audit, screen, stats};
use gristmill_core::job::Name;
use gristmill_core::time::Timestamp;

/// Watch topics, running jobs, workers and dead jobs in the terminal
///
/// Lower-case keys look, upper-case keys change something. `?` lists them.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Keys:
  : NAME      a view: topics, jobs QUERY, running, dead, workers, attempts,
              schedules, events; the beginning of the name is enough
  t r w d     topics, running jobs, workers, dead jobs in groups; Tab: the next
  Enter       open: of a topic its jobs, of a job all about it
  Esc         back
  j k         next and previous row
  /           show only the rows that contain a text; Esc: all
  s o         sort by the next column, turn the order round
  space       freeze
  P           pause or resume the topic
  C K         cancel the job; end its attempt at once
  R D         respawn or delete the group of dead jobs, once its number is typed
  q           quit

Examples:
  gristmill top
  gristmill top --server https://jobs.example.org --token-file token
  gristmill top --once --json | jq '.topics[] | select(.dead > 0)'")]
pub(super) struct Args {
    /// Only this tenant [default: every tenant of the manifest, or of the server]
    #[arg(long)]
    tenant: Option<Name>,
    /// Show everything once, without keys; with --json as one document
    #[arg(long)]
    once: bool,
    /// Upper-case keys change nothing
    #[arg(long)]
    read_only: bool,
    /// How often to look
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = gristmill_config::units::duration)]
    every: Duration,
}

/// Shorter would only cost the store.
const SHORTEST: Duration = Duration::from_millis(250);

pub(super) async fn run(global: &Global, args: Args) -> anyhow::Result<Exit> {
    let manifest = global.manifest_without_secrets()?;
    let reached = global.reach(&manifest).await?;
    if reached.is_ours_alone && !args.once {
        let problem =
            "no server has this store, and while it is watched none could start: `gristmill run` first, or --once";
        return Err(Usage(problem.into()).into());
    }
    let tenants = match args.tenant {
        Some(tenant) => vec![tenant],
        None => stats::tenants_of(global, &manifest, &reached).await?,
    };
    let topics = Topics::find(global, &manifest, Some(&reached)).await?;
    let mut source = Source::new(reached, manifest, topics, tenants);
    if args.once || global.json {
        let (seen, missing) = source.read_all().await?;
        if global.json {
            screen::document(&document(&seen))?
        } else {
            print(&seen)?
        }
        return MissingTenants::exit(missing);
    }
    if !std::io::stdout().is_terminal() {
        return Err(Usage("`top` needs a terminal: use --once for a pipe or a file".into()).into());
    }
    let app = App::new(source.read(&View::Topics).await?, args.read_only);
    let mut terminal = ratatui::init();
    let watched = watch(global, &mut terminal, source, app, args.every.max(SHORTEST)).await;
    ratatui::restore();
    watched?;
    Ok(Exit::Done)
}

/// Until the person quits. A store that is unavailable is shown as such, and asked again.
async fn watch(
    global: &Global,
    terminal: &mut DefaultTerminal,
    mut source: Source,
    mut app: App,
    every: Duration,
) -> anyhow::Result<()> {
    let (sender, mut events) = mpsc::channel(64);
    // Ends with the program: a read of the terminal cannot be broken off.
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send(event).is_err() {
                break;
            }
        }
    });
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut short_ticks = interval(SHORTEST);
    short_ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        terminal.draw(|frame| draw::draw(frame, &app))?;
        tokio::select! {
            event = events.recv() => {
                let Some(event) = event else { return Ok(()) };
                match app.on(&event) {
                    None => {}
                    Some(Ask::Quit) => return Ok(()),
                    Some(ask) => {
                        let words = ask.words();
                        let acted = source.act(ask).await;
                        if let Some(words) = words {
                            audit::record(global, words, acted.is_ok()).await;
                        }
                        match acted {
                            Ok(done) => app.note = done.or(app.note.take()),
                            Err(error) => app.note = Some(format!("{error:#}")),
                        }
                        look(&mut source, &mut app).await;
                    }
                }
            }
            _ = ticks.tick(), if !app.is_frozen() => look(&mut source, &mut app).await,
            _ = short_ticks.tick(), if *app.view() == View::Events && !app.is_frozen() => {
                if let Some(events) = source.new_events() {
                    app.see_events(Timestamp::now(), events);
                }
            }
        }
    }
}

async fn look(source: &mut Source, app: &mut App) {
    match source.read(app.view()).await {
        Ok(seen) => app.see(seen),
        Err(error) => app.note = Some(format!("{error:#}")),
    }
}

fn document(seen: &Seen) -> serde_json::Value {
    json!({ "topics": seen.topics, "running": seen.running, "workers": seen.workers, "dead": seen.dead })
}

/// Everything as tables, one below the other.
fn print(seen: &Seen) -> anyhow::Result<()> {
    for list in View::MAIN.iter().map(|view| list::list(seen, view)) {
        let mut table = Table::new(list.titles);
        let is_empty = list.rows.is_empty();
        list.rows.into_iter().for_each(|(cells, _)| table.row(cells));
        screen::line(&format!("{}{}", list.name, if is_empty { ": none" } else { "" }))?;
        if !is_empty {
            table.print()?;
        }
    }
    Ok(())
}

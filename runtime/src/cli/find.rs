//! `gristmill job list` and `dead list`, and what other commands need to choose jobs by a query.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::exit::{Exit, Usage};
use super::global::{Global, tenant_of};
use super::store::Reached;
use super::table::Table;
use super::{bulk, describe, document, known, screen};
use gristmill_config::units;
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_core::time::Timestamp;
use gristmill_server::RemoteStore;
use gristmill_store::{DeadGroup, JobField, JobQuery, JobState, JobView, Produce, QueryCursor, dead_groups, find};

/// Jobs in one answer.
const PAGE: usize = 200;

/// The columns of `job list`, unless it is asked for others.
const COLUMNS: [&str; 8] = ["id", "topic", "state", "when", "attempts", "key", "code", "message"];

/// What `--help` of a command says about its query.
pub(super) const LANGUAGE: &str = "\
A query is conditions with blanks between them, all of which hold:
  state:ready,delayed  topic:mail*  id:…  key:cust-17  unique:…  priority:high
  reason:timeout  code:smtp-*  message:\"…\"  group:…  worker:…  attempts>=3
  age>1h (since the push)  due<10m (until then)  died<1h (since it was given up)
  meta.NAME:17  body.user.id:42 (a value in a JSON body)
  -topic:metrics (not)  word (in an id, key, message, metadata or body)
Commas mean any of, * any characters; quotes keep blanks together.";

/// List the jobs that fit a query
///
/// Without a query, all jobs of the tenant.
#[derive(Debug, clap::Args)]
#[command(after_help = LANGUAGE)]
pub(super) struct Args {
    /// Conditions, such as 'topic:mail* state:dead age>1h'
    query: Vec<String>,
    #[command(flatten)]
    listing: Listing,
}

/// `gristmill jobs`, with an example of its own.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("Example:\n  gristmill jobs 'topic:mail* state:dead reason:timeout age>1h'\n\n{LANGUAGE}"))]
pub(super) struct AliasArgs {
    #[command(flatten)]
    args: Args,
}

/// What of the jobs is shown.
#[derive(Debug, clap::Args)]
pub(super) struct Listing {
    /// Whose jobs they are [default: default]
    #[arg(long, value_name = "NAME")]
    pub(super) tenant: Option<Name>,
    /// Show at most this many
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    /// Leave out this many of the first
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: usize,
    /// What to show of each job: `when`, or names that a query has, such as id,key,code,body.user.id
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = Column::parse)]
    columns: Vec<Column>,
    /// Group the dead ones by what killed them, the largest group first
    #[arg(long, conflicts_with_all = ["limit", "skip", "columns"])]
    groups: bool,
}

/// A column, with its name.
#[derive(Debug, Clone)]
struct Column {
    name: String,
    /// `None`: when its state began or ends.
    field: Option<JobField>,
}

impl Column {
    fn parse(name: &str) -> Result<Self, String> {
        let field = if name == "when" { None } else { Some(JobField::parse(name)?) };
        Ok(Self { name: name.to_owned(), field })
    }

    fn title(&self) -> String {
        let is_number = self.field == Some(JobField::Attempts);
        format!("{}{}", if is_number { ">" } else { "" }, self.name.to_uppercase())
    }

    fn cell(&self, view: &JobView, now: Timestamp) -> String {
        match &self.field {
            None => when(view, now),
            Some(JobField::Age) => {
                view.job.as_ref().map(|job| describe::distance(job.enqueued_at, now)).unwrap_or_default()
            }
            Some(JobField::Due | JobField::Died) => when(view, now),
            Some(field) => {
                let mut texts = Vec::new();
                field.any_text(view, &mut |text| {
                    texts.push(text.replace('\n', " "));
                    false
                });
                texts.join(", ")
            }
        }
    }
}

/// When its state began or ends, as far as that is known.
pub(super) fn when(view: &JobView, now: Timestamp) -> String {
    match (&view.state, &view.job) {
        (JobState::Delayed { until }, _) => describe::distance(*until, now),
        (JobState::Running { lease_until, .. }, _) => format!("lease ends {}", describe::distance(*lease_until, now)),
        (JobState::Dead { since }, _) => describe::distance(*since, now),
        (JobState::Ready, Some(of)) => describe::distance(of.due_at, now),
        (JobState::Finished, _) => {
            view.ended.as_ref().map(|ended| describe::distance(ended.at, now)).unwrap_or_default()
        }
        (JobState::Ready, None) | (JobState::Waiting, _) => String::new(),
    }
}

pub(super) async fn jobs(global: &Global, AliasArgs { args }: AliasArgs) -> anyhow::Result<Exit> {
    list(global, args).await
}

pub(super) async fn list(global: &Global, Args { query, listing }: Args) -> anyhow::Result<Exit> {
    listing.show(global, query.join(" "), &COLUMNS).await?;
    Ok(Exit::Done)
}

impl Listing {
    /// The groups of a tenant's dead jobs.
    pub(super) const fn groups(tenant: Option<Name>) -> Self {
        Self { tenant, limit: 0, skip: 0, columns: Vec::new(), groups: true }
    }

    /// Shows the jobs that fit, in these columns unless others are asked for. Whether there were any jobs to look at.
    pub(super) async fn show(self, global: &Global, query: String, columns: &[&str]) -> anyhow::Result<bool> {
        let Self { tenant, limit, skip, columns: asked, groups } = self;
        let finder = Finder::new(global, tenant_of(tenant.as_ref()), query).await?;
        if groups {
            show_groups(global, &finder).await?;
            return Ok(true);
        }
        let columns = if asked.is_empty() {
            columns.iter().map(|name| Column::parse(name)).collect::<Result<_, _>>().map_err(Usage)?
        } else {
            asked
        };
        let titles: Vec<_> = columns.iter().map(Column::title).collect();
        let mut table = Table::new(&titles.iter().map(String::as_str).collect::<Vec<_>>());
        let (now, mut place) = (Timestamp::now(), 0);
        let searched = finder
            .jobs(limit.saturating_add(skip), |view| {
                place += 1;
                if place <= skip {
                    return Ok(());
                }
                if global.json {
                    return screen::document(&document::view(&view));
                }
                table.row(columns.iter().map(|column| column.cell(&view, now)));
                Ok(())
            })
            .await?;
        if !global.json {
            if !table.is_empty() {
                table.print()?;
            }
            searched.note(&finder.tenant);
            if searched.found == 0 && searched.looked_at > 0 {
                let (tenant, text) = (finder.tenant.clone(), finder.text.clone());
                // The call that asks for the topics may also have to open the store.
                drop(finder);
                known::note_topics(global, &tenant, &text).await?;
            }
        }
        Ok(searched.looked_at > 0)
    }
}

async fn show_groups(global: &Global, finder: &Finder) -> anyhow::Result<()> {
    let groups = finder.dead_groups().await?;
    let titles = [">JOBS", "TOPIC", "REASON", "CODE", "LAST", "QUERY", "MESSAGE"];
    let now = Timestamp::now();
    let row = |group: &DeadGroup| {
        [
            units::grouped(group.count as u64),
            group.topic.topic.to_string(),
            group.reason.map(|reason| reason.to_string()).unwrap_or_default(),
            group.code.clone(),
            describe::distance(group.last, now),
            // What is in a group is dead.
            group.q.replacen(" state:dead", "", 1),
            group.message.clone(),
        ]
    };
    global.list(
        &groups,
        Table::new(&titles).last_below(),
        row,
        &format!("no job of tenant `{}` is dead, or none fits", finder.tenant),
    )
}

/// How far a search came.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Searched {
    found: usize,
    looked_at: usize,
    /// There are jobs that were not looked at.
    has_more: bool,
}

impl Searched {
    /// Says to people what the list does not show.
    fn note(self, tenant: &Name) {
        let Self { found, looked_at, has_more } = self;
        if has_more {
            screen::note(&format!("{} so far: there are more, see --limit", bulk::fit(found as u64, looked_at as u64)));
        } else if looked_at == 0 {
            screen::note(&format!("tenant `{tenant}` has no such job"));
        } else if found == 0 {
            screen::note(&format!("no job of tenant `{tenant}` fits; looked at {looked_at}"));
        }
    }
}

/// A query in a tenant. A server answers it, if the store belongs to one: it reads the jobs where they are.
#[derive(Debug)]
pub(super) struct Finder {
    store: Arc<dyn Produce>,
    server: Option<RemoteStore>,
    tenant: Name,
    text: String,
    query: JobQuery,
}

impl Finder {
    /// # Errors
    /// [`Usage`]: the text is no query. The store is unavailable, or there is none yet.
    pub(super) async fn new(global: &Global, tenant: Name, text: String) -> anyhow::Result<Self> {
        parse(&text)?;
        Ok(Self::of(&global.reach(&global.manifest_without_secrets()?).await?, tenant, text)?)
    }

    /// The same in a store that was reached before.
    pub(super) fn of(reached: &Reached, tenant: Name, text: String) -> Result<Self, Usage> {
        let query = parse(&text)?;
        Ok(Self { store: reached.store.clone(), server: reached.server.clone(), tenant, text, query })
    }

    /// The ids of all jobs that fit.
    pub(super) async fn ids(&self) -> anyhow::Result<Vec<JobId>> {
        let mut ids = Vec::new();
        let each = |view: JobView| {
            ids.push(view.id);
            Ok(())
        };
        self.jobs(usize::MAX, each).await?;
        Ok(ids)
    }

    /// Calls `each` with the jobs, at most `limit`.
    pub(super) async fn jobs(
        &self,
        limit: usize,
        mut each: impl FnMut(JobView) -> anyhow::Result<()>,
    ) -> anyhow::Result<Searched> {
        let (mut searched, mut after) = (Searched::default(), None);
        while searched.found < limit {
            let page = PAGE.min(limit - searched.found);
            let found = match &self.server {
                Some(server) => server.find(&self.tenant, &self.text, after.as_ref(), page).await?,
                None => find(&*self.store, &self.tenant, None, &self.query, after, page).await?,
            };
            searched.found += found.jobs.len();
            searched.looked_at += found.looked_at;
            searched.has_more = found.next.is_some();
            found.jobs.into_iter().try_for_each(&mut each)?;
            after = found.next;
            if after.is_none() {
                break;
            }
        }
        Ok(searched)
    }

    /// The groups of all dead jobs that fit, the largest first.
    pub(super) async fn dead_groups(&self) -> anyhow::Result<Vec<DeadGroup>> {
        let mut all: BTreeMap<String, DeadGroup> = BTreeMap::new();
        let mut after: Option<QueryCursor> = None;
        loop {
            let found = match &self.server {
                Some(server) => server.dead_groups(&self.tenant, &self.text, after.as_ref()).await?,
                None => dead_groups(&*self.store, &self.tenant, &self.query, after).await?,
            };
            for group in found.groups {
                match all.get_mut(&group.q) {
                    Some(known) => known.add(group),
                    None => _ = all.insert(group.q.clone(), group),
                }
            }
            after = found.next;
            if after.is_none() {
                break;
            }
        }
        let mut groups: Vec<_> = all.into_values().collect();
        groups.sort_by_key(|group| std::cmp::Reverse((group.count, group.last)));
        Ok(groups)
    }
}

/// The query of a topic's dead jobs.
pub(super) fn dead_of(topic: &TopicId, query: &str) -> String {
    format!("topic:{} state:dead {query}", topic.topic)
}

/// # Errors
/// The text is no query.
pub(super) fn parse(text: &str) -> Result<JobQuery, Usage> {
    text.parse().map_err(|error| Usage(format!("{error}")))
}

//! The views: what each is called, and what a person can open from it.

use gristmill_core::job::{JobId, Name, TopicId};

/// What is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum View {
    Topics,
    /// The jobs of a tenant, or of all, that fit a query.
    Jobs {
        tenant: Option<Name>,
        query: String,
    },
    /// One job: its facts, why it is not running, and its latest attempts with their log.
    Job {
        tenant: Name,
        id: JobId,
    },
    Running,
    /// Dead jobs in groups.
    Dead,
    Workers,
    /// What the server's runner has done last.
    Attempts,
    Schedules,
    /// What happens on the server, since this view was opened first.
    Events,
}

impl View {
    /// Those that `Tab` goes through.
    pub(super) const MAIN: [Self; 4] = [Self::Topics, Self::Running, Self::Workers, Self::Dead];

    pub(super) fn next(&self) -> Self {
        let place = Self::MAIN.iter().position(|view| view == self);
        Self::MAIN.into_iter().cycle().nth(place.map_or(0, |place| place + 1)).unwrap_or(Self::Topics)
    }

    /// The jobs of a topic.
    pub(super) fn jobs_of(topic: &TopicId) -> Self {
        Self::Jobs { tenant: Some(topic.tenant.clone()), query: format!("topic:{}", topic.topic) }
    }

    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Topics => "topics",
            Self::Jobs { .. } => "jobs",
            Self::Job { .. } => "job",
            Self::Running => "running",
            Self::Dead => "dead",
            Self::Workers => "workers",
            Self::Attempts => "attempts",
            Self::Schedules => "schedules",
            Self::Events => "events",
        }
    }

    /// As the line of places calls it.
    pub(super) fn crumb(&self) -> String {
        match self {
            Self::Jobs { query, .. } if !query.is_empty() => format!("jobs {query}"),
            Self::Job { id, .. } => format!("job {id}"),
            view => view.name().into(),
        }
    }

    /// Reads what was typed after `:`, such as `dead` or `jobs state:dead age>1h`; the beginning of a name is enough.
    ///
    /// # Errors
    /// It names no view; the text says which there are.
    pub(super) fn named(typed: &str) -> Result<Self, String> {
        let (name, rest) = typed.trim().split_once(' ').unwrap_or((typed.trim(), ""));
        let jobs = Self::Jobs { tenant: None, query: rest.trim().to_owned() };
        let main = [Self::Topics, jobs, Self::Running, Self::Dead, Self::Workers];
        let mut all = main.into_iter().chain([Self::Attempts, Self::Schedules, Self::Events]);
        let known = all.clone().map(|view| view.name()).collect::<Vec<_>>().join(", ");
        let found = all.find(|view| !name.is_empty() && view.name().starts_with(name));
        found.ok_or_else(|| format!("there is no view `{name}`: {known}"))
    }
}

/// A row that can be opened or changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Row {
    Topic {
        topic: TopicId,
        paused: bool,
    },
    Job {
        topic: TopicId,
        id: JobId,
        dead: bool,
    },
    Group(Box<gristmill_store::DeadGroup>),
    /// It can be opened only: it may have moved by the time that a key is pressed.
    Event(View),
    Nothing,
}

impl Row {
    /// Whether it is about the same topic, job or group, whatever has become of that.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Topic { topic, .. }, Self::Topic { topic: other, .. }) => topic == other,
            (Self::Job { id, .. }, Self::Job { id: other, .. }) => id == other,
            (Self::Group(group), Self::Group(other)) => group.q == other.q && group.topic == other.topic,
            _ => false,
        }
    }

    /// What `Enter` opens.
    pub(super) fn opens(&self) -> Option<View> {
        match self {
            Self::Topic { topic, .. } => Some(View::jobs_of(topic)),
            Self::Job { topic, id, .. } => Some(View::Job { tenant: topic.tenant.clone(), id: id.clone() }),
            Self::Group(group) => Some(View::Jobs { tenant: Some(group.topic.tenant.clone()), query: group.q.clone() }),
            Self::Event(view) => Some(view.clone()),
            Self::Nothing => None,
        }
    }
}

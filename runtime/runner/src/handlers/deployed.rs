//! Which of the versions that are on this machine do a topic's jobs, by what was decided about them.

use std::collections::BTreeMap;

use super::handler::Handler;
use gristmill_core::deployment::{Deployment, Other, Plan};
use gristmill_core::job::{Name, TopicId};
use gristmill_core::topic::Topic;
use gristmill_sandbox::Version;

/// Handlers made of kept files, by name and version.
pub(super) type Brought = BTreeMap<(Name, Version), Handler>;

/// What does a topic's jobs.
#[derive(Debug, Default)]
pub(super) struct Deployed {
    /// All of them, or all but the candidate's share.
    pub(super) main: Option<Handler>,
    /// With its share, of ten thousand.
    pub(super) candidate: Option<(Handler, u16)>,
    /// Why there is none, although there is a good component in the handlers folder.
    pub(super) refused: Option<String>,
    /// The version in the handlers folder, if the topic is to try it first.
    pub(super) untried: Option<Version>,
}

impl Deployed {
    /// By the decision, for a topic whose jobs `folder` would do without one.
    pub(super) fn new(
        topic: &Topic,
        folder: Option<Handler>,
        decision: Option<&Deployment>,
        brought: &Brought,
    ) -> Self {
        let simply = |main| Self { main, ..Self::default() };
        let (Some(decision), Some(version)) = (decision, folder.as_ref().and_then(Handler::version)) else {
            return simply(folder);
        };
        let find = |wanted: Version| {
            let kept = || brought.get(&(topic.handler.clone(), wanted)).filter(|kept| kept.lacks(topic).is_empty());
            if wanted == version { folder.clone() } else { kept().cloned() }
        };
        match decision.plan(version, topic.gate) {
            Plan::Folder => simply(folder),
            Plan::Only(stable) => {
                // One that was decided about before is not new: it is still, or again, in the folder of this machine.
                let is_known = decision.other.as_ref().is_some_and(|other| other.version == version)
                    || decision.former(version).is_some();
                let untried = (version != stable && !is_known).then_some(version);
                let main = find(stable);
                let refused = main.is_none().then(|| not_here(decision, version, stable));
                Self { main, refused, untried, candidate: None }
            }
            Plan::Split(stable, candidate, share) => match (find(stable), find(candidate)) {
                (Some(main), Some(candidate)) => {
                    Self { main: Some(main), candidate: Some((candidate, share)), ..Self::default() }
                }
                // A machine that has one of the two does all jobs with it.
                (main, candidate) => simply(main.or(candidate)),
            },
        }
    }
}

fn not_here(decision: &Deployment, folder: Version, stable: Version) -> String {
    let reason =
        decision.other.as_ref().filter(|other| other.version == folder).and_then(|other| other.reason.as_deref());
    let why = match (reason, decision.former(folder)) {
        (Some(reason), _) => format!("it was rolled back ({reason})"),
        (None, Some(_)) => "another version took its place".to_owned(),
        (None, None) => "it was not tried yet".to_owned(),
    };
    format!(
        "{why}, and version {stable}, which is to do the jobs, is not on this machine: copy its file into the handlers folder"
    )
}

/// The versions besides the one in the handlers folder that the decisions want of handlers, by the topics' names of them.
pub(super) fn wanted<'a>(
    topics: impl Iterator<Item = &'a Topic>,
    decisions: &BTreeMap<TopicId, Deployment>,
    folder: &BTreeMap<Name, Handler>,
) -> Vec<(Name, Version)> {
    let mut wanted: Vec<(Name, Version)> = topics
        .filter_map(|topic| Some((topic, decisions.get(&topic.id)?)))
        .flat_map(|(topic, decision)| {
            let candidate = decision.candidate().map(|Other { version, .. }| *version);
            [Some(decision.stable), candidate].into_iter().flatten().map(|version| (topic.handler.clone(), version))
        })
        .filter(|(handler, version)| folder.get(handler).and_then(Handler::version) != Some(*version))
        .collect();
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}

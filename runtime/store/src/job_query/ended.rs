//! Finds jobs that are over, among those that are remembered.

use super::JobQuery;
use super::find::{QueryCursor, TopicPosition};
use super::scan::Scanned;
use crate::ended::REMEMBERED;
use crate::error::StoreError;
use crate::inspect::{Inspect, JobView};
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_core::time::Timestamp;

/// Looks at what is remembered of one topic after the other.
pub(super) async fn search_ended(
    store: &dyn Inspect,
    tenant: &Name,
    topic: Option<&TopicId>,
    query: &JobQuery,
    after: Option<QueryCursor>,
    scanned: &mut Scanned,
    mut found: impl FnMut(JobView) + Send,
) -> Result<Option<QueryCursor>, StoreError> {
    let mut topics = match topic {
        Some(topic) => vec![topic.clone()],
        None => store.counts(tenant).await?.into_iter().map(|counts| counts.topic).collect(),
    };
    let begin = after.and_then(|after| match after.position {
        TopicPosition::Ended(last) => Some((after.topic, last)),
        TopicPosition::List(_) | TopicPosition::Behind(_) => None,
    });
    topics.retain(|topic| query.fits_topic(&topic.topic));
    topics.retain(|topic| begin.as_ref().is_none_or(|(begin, _)| topic.topic >= *begin));
    topics.sort();
    for topic in topics {
        let goes_on = |last| Ok(Some(QueryCursor { topic: topic.topic.clone(), position: TopicPosition::Ended(last) }));
        let mut last = begin.as_ref().filter(|(begin, _)| *begin == topic.topic).and_then(|(_, last)| last.clone());
        if scanned.is_over() {
            return goes_on(last);
        }
        scanned.pages = scanned.pages.saturating_sub(1);
        let ended = behind(store.ended_jobs(&topic, REMEMBERED).await?, last.as_ref());
        for view in ended {
            if scanned.is_over() {
                return goes_on(last);
            }
            scanned.looked_at += 1;
            last = Some((ended_at(&view), view.id.clone()));
            if scanned.holds_against(query, &view).await {
                scanned.found(&view);
                found(view);
            }
        }
    }
    Ok(None)
}

/// Those of the jobs behind the one that ended then. If that is forgotten, those that did not end later.
fn behind(mut ended: Vec<JobView>, last: Option<&(Timestamp, JobId)>) -> Vec<JobView> {
    let Some((at, id)) = last else { return ended };
    let begin = match ended.iter().position(|view| view.id == *id) {
        Some(place) => place + 1,
        None => ended.iter().position(|view| ended_at(view) <= *at).unwrap_or(ended.len()),
    };
    ended.split_off(begin)
}

fn ended_at(view: &JobView) -> Timestamp {
    view.ended.as_ref().map_or_else(Timestamp::default, |ended| ended.at)
}

//! Which topics have series of their own: the first so many, for as long as the process lives. What comes later is counted
//! with its tenant's other topics, so that no number of topics makes a page without end.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::topic::TopicMeter;
use gristmill_core::job::{Name, TopicId};

/// Topics with series of their own.
pub(super) const TOPICS: usize = 1000;
/// Tenants whose further topics are counted together; those of further tenants are counted in one.
pub(super) const TENANTS: usize = 100;
/// What stands for the rest. No [`Name`] begins like this.
const OTHER: &str = "_other";

/// Everybody's meters.
#[derive(Debug)]
pub(super) struct Topics {
    known: RwLock<Known>,
    /// Of topics and of tenants.
    bounds: (usize, usize),
}

#[derive(Debug, Default)]
struct Known {
    topics: BTreeMap<TopicId, Arc<TopicMeter>>,
    others: BTreeMap<Name, Arc<TopicMeter>>,
    rest: Option<Arc<TopicMeter>>,
}

impl Default for Topics {
    fn default() -> Self {
        Self::bounded(TOPICS, TENANTS)
    }
}

impl Topics {
    fn bounded(topics: usize, tenants: usize) -> Self {
        Self { known: RwLock::default(), bounds: (topics, tenants) }
    }

    /// Where this topic is counted; the same for ever. For whoever keeps it: it looks a name up.
    pub(super) fn of(&self, id: &TopicId) -> Arc<TopicMeter> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(meter) = known.topics.get(id) {
            return Arc::clone(meter);
        }
        drop(known);
        self.known.write().unwrap_or_else(PoisonError::into_inner).find_or_make(id, self.bounds)
    }

    /// Those of one tenant, or all; in order.
    pub(super) fn all(&self, tenant: Option<&Name>) -> Vec<Arc<TopicMeter>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let ours = |whose: &Name| tenant.is_none_or(|tenant| tenant == whose);
        let topics = known.topics.iter().filter(|(id, _)| ours(&id.tenant)).map(|(_, meter)| meter);
        let others = known.others.iter().filter(|(whose, _)| ours(whose)).map(|(_, meter)| meter);
        // Of several tenants together: for nobody who may see one.
        let rest = known.rest.iter().filter(|_| tenant.is_none());
        topics.chain(others).chain(rest).cloned().collect()
    }

    /// Tenants of which something was counted, in order.
    pub(super) fn tenants(&self) -> Vec<Name> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut tenants: Vec<Name> =
            known.topics.keys().map(|id| &id.tenant).chain(known.others.keys()).cloned().collect();
        tenants.sort();
        tenants.dedup();
        tenants
    }
}

impl Known {
    fn find_or_make(&mut self, id: &TopicId, (topics, tenants): (usize, usize)) -> Arc<TopicMeter> {
        let TopicId { tenant, topic } = id;
        if let Some(meter) = self.topics.get(id) {
            return Arc::clone(meter);
        }
        if self.topics.len() < topics {
            let meter = Arc::new(TopicMeter::new(tenant.as_str(), topic.as_str()));
            return Arc::clone(self.topics.entry(id.clone()).or_insert(meter));
        }
        if self.others.contains_key(tenant) || self.others.len() < tenants {
            let make = || Arc::new(TopicMeter::new(tenant.as_str(), OTHER));
            return Arc::clone(self.others.entry(tenant.clone()).or_insert_with(make));
        }
        Arc::clone(self.rest.get_or_insert_with(|| Arc::new(TopicMeter::new(OTHER, OTHER))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> TopicId {
        text.parse().unwrap()
    }

    fn labels(topics: &Topics, tenant: Option<&str>) -> Vec<(String, String)> {
        let tenant = tenant.map(|tenant| tenant.parse().unwrap());
        let owned = |meter: Arc<TopicMeter>| (meter.labels().0.to_owned(), meter.labels().1.to_owned());
        topics.all(tenant.as_ref()).into_iter().map(owned).collect()
    }

    #[test]
    fn topics_have_their_own_series_up_to_the_bound_and_share_from_there_on() {
        let topics = Topics::bounded(2, 1);
        let of = |name: &str| topics.of(&id(name)).labels().1.to_owned();
        assert_eq!(["a/1", "a/2", "a/3", "a/1"].map(of), ["1", "2", OTHER, "1"]);
        assert!(Arc::ptr_eq(&topics.of(&id("a/3")), &topics.of(&id("a/4"))));
    }

    #[test]
    fn what_several_tenants_share_is_shown_to_none_of_them() {
        let topics = Topics::bounded(1, 1);
        ["a/1", "b/1", "c/1", "d/1"].into_iter().for_each(|name| drop(topics.of(&id(name))));
        let of = |tenant, topic: &str| (str::to_owned(tenant), topic.to_owned());
        assert_eq!(labels(&topics, None), [of("a", "1"), of("b", OTHER), of(OTHER, OTHER)]);
        assert_eq!(labels(&topics, Some("b")), [of("b", OTHER)]);
        assert_eq!(labels(&topics, Some("c")), []);
    }

    #[test]
    fn no_number_of_topics_makes_more_series_than_the_bounds_allow() {
        let topics = Topics::default();
        for number in 0..TOPICS + 2 * TENANTS {
            topics.of(&id(&format!("t{number}/x")));
        }
        assert_eq!(topics.all(None).len(), TOPICS + TENANTS + 1);
    }
}

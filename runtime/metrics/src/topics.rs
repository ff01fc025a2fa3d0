//! Which topics have series of their own: the first ones up to a limit, for as long as the process lives. Later ones are counted with
//! the other topics of their tenant, so that the exposition stays bounded whatever the number of topics.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

use super::topic::TopicMeter;
use gristmill_core::job::{Name, TopicId};

/// Topics with series of their own.
pub(super) const TOPICS: usize = 1000;
/// Tenants whose further topics are counted together. Those of further tenants are counted as one.
pub(super) const TENANTS: usize = 100;
/// The label of everything beyond a bound. It is not a valid [`Name`].
const OTHER: &str = "_other";

/// The meters of all topics.
#[derive(Debug)]
pub(super) struct Topics {
    meters: RwLock<TopicMeters>,
    /// Of topics and of tenants.
    bounds: (usize, usize),
}

#[derive(Debug, Default)]
struct TopicMeters {
    own: BTreeMap<TopicId, Arc<TopicMeter>>,
    /// By tenant, or [`OTHER`].
    shared: BTreeMap<String, Arc<TopicMeter>>,
}

impl Default for Topics {
    fn default() -> Self {
        Self::bounded(TOPICS, TENANTS)
    }
}

impl Topics {
    fn bounded(topics: usize, tenants: usize) -> Self {
        Self { meters: RwLock::default(), bounds: (topics, tenants) }
    }

    /// The meter of this topic, the same as long as the process lives. Looks a name up: callers keep it.
    pub(super) fn of(&self, id: &TopicId) -> Arc<TopicMeter> {
        if let Some(meter) = self.meters.read().own.get(id) {
            return Arc::clone(meter);
        }
        self.meters.write().find_or_make(id, self.bounds)
    }

    /// The meter of this topic, if it has one of its own.
    pub(super) fn own(&self, id: &TopicId) -> Option<Arc<TopicMeter>> {
        self.meters.read().own.get(id).cloned()
    }

    /// The meters of one tenant, or all, in order. Those that tenants share are only among all.
    pub(super) fn all(&self, tenant: Option<&Name>) -> Vec<Arc<TopicMeter>> {
        let meters = self.meters.read();
        let all = meters.own.values().chain(meters.shared.values());
        all.filter(|meter| tenant.is_none_or(|tenant| tenant.as_str() == meter.names().0)).cloned().collect()
    }

    /// Tenants with a meter, in order.
    pub(super) fn tenants(&self) -> Vec<Name> {
        let meters = self.meters.read();
        let shared = meters.shared.keys().filter_map(|tenant| tenant.parse().ok());
        let mut tenants: Vec<Name> = meters.own.keys().map(|id| id.tenant.clone()).chain(shared).collect();
        tenants.sort();
        tenants.dedup();
        tenants
    }
}

impl TopicMeters {
    fn find_or_make(&mut self, id: &TopicId, (topics, tenants): (usize, usize)) -> Arc<TopicMeter> {
        let tenant = id.tenant.as_str();
        if self.own.len() < topics || self.own.contains_key(id) {
            let make = || Arc::new(TopicMeter::new(tenant, id.topic.as_str()));
            return Arc::clone(self.own.entry(id.clone()).or_insert_with(make));
        }
        let has_place = self.shared.contains_key(tenant) || self.shared.len() < tenants;
        let tenant = if has_place { tenant } else { OTHER };
        let make = || Arc::new(TopicMeter::new(tenant, OTHER));
        Arc::clone(self.shared.entry(tenant.to_owned()).or_insert_with(make))
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
        let owned = |meter: Arc<TopicMeter>| (meter.names().0.to_owned(), meter.names().1.to_owned());
        topics.all(tenant.as_ref()).into_iter().map(owned).collect()
    }

    #[test]
    fn topics_have_their_own_series_up_to_the_bound_and_share_from_there_on() {
        let topics = Topics::bounded(2, 1);
        let of = |name: &str| topics.of(&id(name)).names().1.to_owned();
        assert_eq!(["a/1", "a/2", "a/3", "a/1"].map(of), ["1", "2", OTHER, "1"]);
        assert!(Arc::ptr_eq(&topics.of(&id("a/3")), &topics.of(&id("a/4"))));
    }

    #[test]
    fn series_that_several_tenants_share_are_shown_to_none_of_them() {
        let topics = Topics::bounded(1, 1);
        ["a/1", "b/1", "c/1", "d/1"].into_iter().for_each(|name| drop(topics.of(&id(name))));
        let of = |tenant, topic: &str| (str::to_owned(tenant), topic.to_owned());
        assert_eq!(labels(&topics, None), [of("a", "1"), of(OTHER, OTHER), of("b", OTHER)]);
        assert_eq!(labels(&topics, Some("b")), [of("b", OTHER)]);
        assert_eq!(labels(&topics, Some("c")), []);
    }

    #[test]
    fn any_number_of_topics_makes_no_more_series_than_the_bounds_allow() {
        let topics = Topics::default();
        for number in 0..TOPICS + 2 * TENANTS {
            topics.of(&id(&format!("t{number}/x")));
        }
        assert_eq!(topics.all(None).len(), TOPICS + TENANTS + 1);
    }
}

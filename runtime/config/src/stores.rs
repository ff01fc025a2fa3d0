//! `[stores.NAME]`: more stores than one, and `[tenants.NAME] store`: which of them a tenant's jobs are in.

use std::collections::BTreeMap;
use std::path::Path;

use super::diagnostic::Span;
use super::read::{Problems, Section, name};
use super::store::{self, StoreAddress, StoreSettings};
use gristmill_core::job::{Name, TopicId};

/// What the store of `[store]` is called.
pub const HOME: &str = "home";

/// A tenant, the store that it names, and where.
pub(super) type Placement = (Name, Name, Span);

/// Every store but the primary one. Paths are relative to `folder`, the manifest's.
pub(super) fn stores(root: &mut Section<'_>, folder: &Path, home: &StoreSettings) -> BTreeMap<Name, StoreSettings> {
    let mut stores: BTreeMap<Name, StoreSettings> = BTreeMap::new();
    for (written, span, mut section) in root.sections("stores") {
        let problems = section.problems();
        let Some(name) = name(written, span.clone(), problems) else { continue };
        if written == HOME {
            let title = format!("`{HOME}` is what the store of [store] is called");
            problems.report(span, title, "write its address into [store], or choose another name here");
            continue;
        }
        let has_url = section.has("url");
        if !has_url {
            let title = format!("{} does not say where it is", section.title());
            problems.report(span.clone(), title, "every store but the one of [store] needs a `url`");
        }
        let settings = store::settings(&mut section, folder);
        section.finish();
        let others = std::iter::once((HOME, home)).chain(stores.iter().map(|(name, other)| (name.as_str(), other)));
        if let Some((other, _)) = others.into_iter().find(|(_, other)| has_url && other.is_same_store(&settings)) {
            let title = format!("`{name}` and `{other}` are the same store");
            let help =
                "each store has an address of its own, or at least a `prefix` of its own in a Redis that they share";
            problems.report(span, title, help);
            continue;
        }
        stores.insert(name, settings);
    }
    stores
}

/// The store that a tenant's section names, if it names one.
pub(super) fn placement(tenant_section: &mut Section<'_>, tenant: &Name) -> Option<Placement> {
    let value = tenant_section.value("store")?;
    let text = tenant_section.string("store", value, "a store's name")?;
    let store = name(text, value.span(), tenant_section.problems())?;
    Some((tenant.clone(), store, value.span()))
}

/// Which tenants are not placed in the primary store, and where they are.
pub(super) fn placements(
    written: Vec<Placement>,
    stores: &BTreeMap<Name, StoreSettings>,
    problems: &Problems,
) -> BTreeMap<Name, Name> {
    let mut placements = BTreeMap::new();
    for (tenant, store, span) in written {
        if store.as_str() == HOME {
            continue;
        }
        if stores.contains_key(&store) {
            placements.insert(tenant, store);
            continue;
        }
        let names = || std::iter::once(HOME).chain(stores.keys().map(Name::as_str));
        let problem = problems.at(span, format!("there is no store `{store}`"));
        let all = || names().collect::<Vec<_>>().join(", ");
        let help = || format!("there are: {}; a section [stores.{store}] makes one", all());
        problems.add(problem.suggest(store.as_str(), names(), help));
    }
    placements
}

/// Refuses to spread topics that are in a SQLite database: one file is on one machine.
pub(super) fn check_spread(
    spread: Vec<(TopicId, Span)>,
    home: &StoreSettings,
    stores: &BTreeMap<Name, StoreSettings>,
    placements: &BTreeMap<Name, Name>,
    problems: &Problems,
) {
    for (topic, span) in spread {
        let store = placements.get(&topic.tenant).and_then(|name| stores.get(name)).unwrap_or(home);
        if !matches!(store.address, StoreAddress::Redis(_)) {
            let title = format!("`partitions` spreads a topic over servers, and `{topic}` is in a SQLite database");
            let help = "name a Redis as `url` of the tenant's store, or leave `partitions` out";
            problems.report(span, title, help);
        }
    }
}

/// Refuses states of keys where there are several stores: a tenant that moves from one to another would leave them behind.
pub(super) fn check_states(
    stateful: Vec<(TopicId, Span)>,
    stores: &BTreeMap<Name, StoreSettings>,
    problems: &Problems,
) {
    for (topic, span) in stateful.into_iter().filter(|_| !stores.is_empty()) {
        let title = format!("`{topic}` has `state`, which does not move between stores, and there are several");
        let help = "remove the sections [stores.NAME], or `state`, or run these topics with a manifest of their own";
        problems.report(span, title, help);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Manifest, StoreAddress};
    use super::*;

    fn parse(text: &str) -> Manifest {
        Manifest::parse(text, Path::new("/etc/mill/gristmill.toml")).unwrap_or_else(|error| panic!("{error}"))
    }

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    #[test]
    fn several_stores_are_read_and_tenants_live_where_they_say() {
        let manifest = parse(
            r#"
            [stores.archive]
            url = "sqlite:archive.db"
            durability = "process"
            [stores.fast]
            url = "redis://db:6379/0"
            prefix = "acme"
            [tenants.acme]
            store = "fast"
            [tenants.other]
            store = "home"
            [tenants.third.topics.a]
            "#,
        );
        assert_eq!(manifest.stores[&name("archive")].address, StoreAddress::File("/etc/mill/archive.db".into()));
        assert_eq!(manifest.stores[&name("fast")].redis.prefix, "acme");
        assert_eq!(manifest.placements, BTreeMap::from([(name("acme"), name("fast"))]));
        assert!(parse("").stores.is_empty());
    }

    #[test]
    fn only_a_redis_spreads_a_topic() {
        let parse = |text: &str| Manifest::parse(text, Path::new("gristmill.toml")).map_err(|error| error.to_string());
        let redis = "[store]\nurl = \"redis://db\"\n";
        let manifest = parse(&format!("{redis}[topics.mail]\npartitions = 8\n[topics.other]")).unwrap();
        let partitions: Vec<u32> = manifest.topics.values().map(|topic| topic.partitions).collect();
        assert_eq!(partitions, [8, 1]);
        let problem = parse("[topics.mail]\npartitions = 8").unwrap_err();
        assert!(problem.contains("gristmill.toml:2:14") && problem.contains("`mail` is in a SQLite"), "{problem}");
        assert!(parse("[topics.mail]\npartitions = 1").is_ok());
        let file = "[stores.file]\nurl = \"sqlite:a.db\"\n[tenants.acme]\nstore = \"file\"\n";
        assert!(parse(&format!("{redis}{file}[tenants.acme.topics.mail]\npartitions = 2")).is_err());
        assert!(parse(&format!("{redis}[topics.mail]\npartitions = 65")).is_err());
    }

    #[test]
    fn two_names_of_one_store_are_distinguished_from_two_stores() {
        let absolute = std::path::absolute("gristmill.db").unwrap();
        let absolute = &*format!("sqlite://{}", absolute.display());
        let same = [
            ("sqlite:gristmill.db", "", "sqlite:./gristmill.db", ""),
            ("sqlite:gristmill.db", "", "sqlite:handlers/../gristmill.db", ""),
            ("sqlite:gristmill.db", "", absolute, ""),
            ("redis://db", "", "redis://me:hunter2@db:6379/0", ""),
            ("redis://db/1", "prefix = \"a\"", "redis://db:6379/1", "prefix = \"a\""),
        ];
        let other = [
            ("sqlite:gristmill.db", "", "sqlite:gristmill.db.2", ""),
            ("sqlite::memory:", "", "sqlite::memory:", ""),
            ("redis://db/0", "", "redis://db/1", ""),
            ("redis://db/0", "", "redis://db/0", "prefix = \"b\""),
        ];
        let parse = |(home, with, more, and): (&str, &str, &str, &str)| {
            let text = format!("[store]\nurl = \"{home}\"\n{with}\n[stores.b]\nurl = \"{more}\"\n{and}");
            Manifest::parse(&text, Path::new("gristmill.toml")).map_err(|error| error.to_string())
        };
        for stores in same {
            let problem = parse(stores).unwrap_err();
            assert!(problem.contains("are the same store") && !problem.contains("hunter2@db is"), "{problem}");
        }
        for stores in other {
            assert!(parse(stores).is_ok(), "{stores:?}");
        }
    }
}

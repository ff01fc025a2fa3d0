//! Which version of its handler does a topic's jobs, where that is not simply the file in the handlers folder: after a rollback, or
//! while a new version is tried on a share of the jobs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::job::JobSpec;
use crate::time::Timestamp;
use crate::version::Version;

/// A share of 100 %, in hundredths of a per cent.
pub const WHOLE: u16 = 10_000;

/// What was decided about two versions of a topic's handler. It holds on every runner whose handlers folder has one of the two, and says nothing
/// of any other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Deployment {
    /// Grows by one with each change; the first is 1.
    pub generation: u64,
    /// The version that does the jobs.
    pub stable: Version,
    /// The one that does some of them, or none.
    pub other: Option<Other>,
    /// The versions of earlier decisions, the latest first; at most eight.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<Former>,
}

/// A version that was decided about, and does no jobs any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Former {
    /// Which one.
    pub version: Version,
    /// Whether it did all jobs, and was not rolled back: then there is a way back to it.
    pub served: bool,
}

const FORMER_MAX: usize = 8;

/// A version that does not do all jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Other {
    /// Which one.
    pub version: Version,
    /// Of ten thousand jobs or keys, how many it does. 0: it was rolled back.
    pub share: u16,
    /// When that was decided, by the clock of the host that did.
    pub since_ms: Timestamp,
    /// Why it was rolled back: by whom, or by which rule with its numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What follows from a [`Deployment`] for a runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// The component in the handlers folder does all jobs.
    Folder,
    /// This version does all jobs.
    Only(Version),
    /// The first does the jobs, but for the share of the second.
    Split(Version, Version, u16),
}

impl Deployment {
    /// What a runner does whose handlers folder has this version. `gated`: the topic lets no version serve that was not tried.
    pub fn plan(&self, folder: Version, gated: bool) -> Plan {
        let other = self.other.as_ref();
        let is_known = folder == self.stable || other.is_some_and(|other| other.version == folder);
        match other {
            _ if !is_known && !gated => Plan::Folder,
            Some(other) if is_known && other.share > 0 => Plan::Split(self.stable, other.version, other.share),
            _ => Plan::Only(self.stable),
        }
    }

    /// The version that is being tried on a share of the jobs.
    pub fn candidate(&self) -> Option<&Other> {
        self.other.as_ref().filter(|other| other.share > 0)
    }

    /// The version that was rolled back.
    pub fn rolled_back(&self) -> Option<&Other> {
        self.other.as_ref().filter(|other| other.share == 0)
    }

    /// What is known of a version that does no jobs any more.
    pub fn former(&self, version: Version) -> Option<Former> {
        self.former.iter().copied().find(|former| former.version == version)
    }

    /// What follows `before`: `version` does all jobs.
    #[must_use]
    pub fn serving(version: Version, before: Option<&Self>) -> Self {
        Self::next(before, version, None)
    }

    /// What follows `before`: `version` does this share of the jobs, of ten thousand, and `stable` the rest.
    #[must_use]
    pub fn trying(version: Version, share: u16, stable: Version, before: Option<&Self>) -> Self {
        let other = Other { version, share: share.min(WHOLE), since_ms: Timestamp::now(), reason: None };
        Self::next(before, stable, Some(other))
    }

    /// What follows `before`: `stable` does all jobs, and `version` none, for this reason.
    #[must_use]
    pub fn rolling_back(version: Version, stable: Version, reason: String, before: Option<&Self>) -> Self {
        let other = Other { version, share: 0, since_ms: Timestamp::now(), reason: Some(reason) };
        Self::next(before, stable, Some(other))
    }

    /// The same, and this version did all jobs until then, whatever was decided before: its file was in the handlers folder.
    #[must_use]
    pub fn after(mut self, served: Version) -> Self {
        self.note(Former { version: served, served: true });
        self
    }

    fn next(before: Option<&Self>, stable: Version, other: Option<Other>) -> Self {
        let (generation, former) =
            before.map_or((1, Vec::new()), |before| (before.generation + 1, before.former.clone()));
        let mut next = Self { generation, stable, other, former };
        next.former.retain(|former| former.version != stable);
        if let Some(Self { stable, other, .. }) = before {
            next.note(Former { version: *stable, served: true });
            other.iter().for_each(|other| next.note(Former { version: other.version, served: false }));
        }
        next
    }

    /// Notes a version that does no jobs any more. One that does, or was just rolled back, is none.
    fn note(&mut self, former: Former) {
        let Former { version, .. } = former;
        self.former.retain(|other| other.version != version);
        if version != self.stable && self.other.as_ref().is_none_or(|other| other.version != version) {
            self.former.insert(0, former);
            self.former.truncate(FORMER_MAX);
        }
    }
}

/// Whether a job is among the `share`, of ten thousand, that a version does: the same on every runner, for every attempt at the job, and for all
/// jobs of a key. Each version has jobs of its own.
pub fn is_in_share(job: &JobSpec, version: &Version, share: u16) -> bool {
    let of = job.shared_key().unwrap_or(job.id.as_str());
    let digest: [u8; 32] = Sha256::new_with_prefix(version.0).chain_update(of).finalize().into();
    let number = u16::from_be_bytes([digest[0], digest[1]]);
    u32::from(number) * u32::from(WHOLE) / (1 << 16) < u32::from(share)
}

/// The text is no share.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no share: write one such as `5%`, from 0.01% to 100%")]
pub struct BadShare(pub String);

/// Reads a share such as `5%` or `0.25%`. Returns it in hundredths of a per cent, from 1 to [`WHOLE`].
///
/// # Errors
/// The text is none.
pub fn share(text: &str) -> Result<u16, BadShare> {
    let bad = || BadShare(text.to_owned());
    let number = text.strip_suffix('%').ok_or_else(bad)?;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || part.len() > 2 || !is_number(whole) || !is_number(part) {
        return Err(bad());
    }
    let share: u16 = format!("{whole}{part:0<2}").parse().map_err(|_| bad())?;
    if (1..=WHOLE).contains(&share) { Ok(share) } else { Err(bad()) }
}

/// Writes a share as [`share`] reads it.
pub fn show_share(share: u16) -> String {
    let text = format!("{}.{:02}", share / 100, share % 100);
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Payload;

    fn version(text: &str) -> Version {
        Version::of(text.as_bytes())
    }

    #[test]
    fn a_version_that_was_rolled_back_does_nothing_and_an_unknown_one_serves_unless_the_topic_is_gated() {
        let (a, b, c) = (version("a"), version("b"), version("c"));
        let back = Deployment::rolling_back(b, a, "worse".into(), None);
        assert_eq!((back.plan(b, false), back.plan(a, false)), (Plan::Only(a), Plan::Only(a)));
        assert_eq!((back.plan(c, false), back.plan(c, true)), (Plan::Folder, Plan::Only(a)));
        let tried = Deployment::trying(c, 500, a, Some(&back));
        assert_eq!(tried.generation, 2);
        assert_eq!((tried.plan(c, true), tried.plan(a, true)), (Plan::Split(a, c, 500), Plan::Split(a, c, 500)));
        let promoted = Deployment::serving(c, Some(&tried));
        assert_eq!(
            (promoted.plan(c, true), promoted.plan(b, true), promoted.plan(b, false)),
            (Plan::Only(c), Plan::Only(c), Plan::Folder)
        );
    }

    #[test]
    fn what_served_and_what_was_rolled_back_stays_known() {
        let [a, b, c, d] = ["a", "b", "c", "d"].map(version);
        let known =
            |of: &Deployment| of.former.iter().map(|former| (former.version, former.served)).collect::<Vec<_>>();
        let first = Deployment::serving(b, None).after(a);
        assert_eq!(known(&first), [(a, true)]);
        let tried = Deployment::trying(c, 500, b, Some(&first));
        let back = Deployment::rolling_back(c, b, "worse".into(), Some(&tried));
        assert_eq!((known(&tried), known(&back)), (vec![(a, true)], vec![(a, true)]), "`c` and `b` are the decision");
        let next = Deployment::serving(d, Some(&back)).after(b);
        assert_eq!(known(&next), [(b, true), (c, false), (a, true)]);
        let by_hand = Deployment::rolling_back(d, b, "by a person".into(), Some(&next));
        assert_eq!(known(&by_hand), [(c, false), (a, true)]);
        let again = Deployment::serving(c, Some(&by_hand));
        assert_eq!(known(&again), [(d, false), (b, true), (a, true)], "`c` was deployed once more");
        let many =
            (0..20).fold(again, |before, number| Deployment::serving(version(&number.to_string()), Some(&before)));
        assert_eq!((many.former.len(), many.generation), (FORMER_MAX, 26));
    }

    #[test]
    fn a_share_has_so_many_jobs_and_all_of_a_key() {
        let (a, b) = (version("a"), version("b"));
        let job = |number: u32, key: Option<&str>| {
            let topic = "acme/mail".parse().unwrap();
            let mut job = JobSpec::new(topic, Payload::default());
            job.id = format!("job-{number}").parse().unwrap();
            job.options.key = key.map(Into::into);
            job
        };
        let (mut ours, mut both) = (0, 0);
        for number in 0..20_000 {
            let job = job(number, None);
            let is_ours = is_in_share(&job, &a, 500);
            ours += u32::from(is_ours);
            both += u32::from(is_ours && is_in_share(&job, &b, 500));
            assert!(!is_in_share(&job, &a, 0) && is_in_share(&job, &a, WHOLE));
        }
        // 1000 and 50 are expected.
        assert!((900..1100).contains(&ours) && both < 100, "{ours} {both}");
        let of_key = |number| is_in_share(&job(number, Some("customer-7")), &a, 5_000);
        assert!((0..100).all(|number| of_key(number) == of_key(0)));
    }
}

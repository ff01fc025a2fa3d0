//! What is in the jobs of a tenant that hides it: `hide-payloads` in the limits of the tenant. Workers get it to do the jobs; besides them only
//! who may do everything in all tenants.

use crate::auth::identity::{Identity, Scope};
use crate::problem::{Code, Problem};
use crate::state::AppState;
use crate::wire::schedule::Schedule;
use gristmill_core::job::{Job, Name, Payload};
use gristmill_core::outcome::Failure;
use gristmill_runner::RecentAttempt;
use gristmill_store::{JobQuery, JobView, ResultView};

/// The media type of a payload that is not shown.
const HIDDEN: &str = "application/x-hidden";

impl AppState {
    /// Whether the identity does not see what is in the jobs of the tenant.
    pub(crate) fn hides_payloads(&self, identity: &Identity, tenant: &Name) -> bool {
        self.topics().limits(tenant).hide_payloads && identity.may_everywhere(Scope::Admin).is_err()
    }

    /// As the identity sees it.
    pub(crate) fn shown<T: Hide>(&self, identity: &Identity, tenant: &Name, mut of: T) -> T {
        if self.hides_payloads(identity, tenant) {
            of.hide();
        }
        of
    }

    /// # Errors
    /// The identity does not see what is in the jobs of the tenant.
    pub(crate) fn may_see_payloads(&self, identity: &Identity, tenant: &Name) -> Result<(), Problem> {
        if self.hides_payloads(identity, tenant) { Err(hidden(tenant, "this is one")) } else { Ok(()) }
    }

    /// What a request searches for. A search reveals what is in the jobs that it finds.
    ///
    /// # Errors
    /// The text is no query, or asks what the identity does not see.
    pub(crate) fn query(&self, identity: &Identity, tenant: &Name, text: &str) -> Result<JobQuery, Problem> {
        let query = parsed(text)?;
        if query.reads_payloads() && self.hides_payloads(identity, tenant) {
            return Err(unanswered(tenant));
        }
        Ok(query)
    }

    /// The query of something that is also shown to others.
    ///
    /// # Errors
    /// The text is no query, or asks what some do not see.
    pub(crate) fn public_query(&self, tenant: &Name, text: &str) -> Result<JobQuery, Problem> {
        let query = parsed(text)?;
        if query.reads_payloads() && self.topics().limits(tenant).hide_payloads {
            return Err(unanswered(tenant));
        }
        Ok(query)
    }
}

fn parsed(text: &str) -> Result<JobQuery, Problem> {
    text.parse().map_err(|error| Problem::new(Code::BadRequest, format!("`q`: {error}")))
}

fn unanswered(tenant: &Name) -> Problem {
    hidden(tenant, "`q` asks for one: choose jobs by something else than `body.`, `meta.` and free text")
}

fn hidden(tenant: &Name, why: &str) -> Problem {
    let detail = format!("payloads of tenant `{tenant}` are hidden (`hide-payloads` in its limits), and {why}");
    Problem::new(Code::Forbidden, detail)
}

/// What can be shown without payloads.
pub(crate) trait Hide {
    /// Takes them out.
    fn hide(&mut self);
}

impl Hide for Payload {
    fn hide(&mut self) {
        *self = Self { data: Vec::new(), content_type: Some(HIDDEN.into()) };
    }
}

impl<T: Hide> Hide for Option<T> {
    fn hide(&mut self) {
        self.iter_mut().for_each(Hide::hide);
    }
}

impl<T: Hide> Hide for Vec<T> {
    fn hide(&mut self) {
        self.iter_mut().for_each(Hide::hide);
    }
}

/// Metadata: a name and a value.
impl Hide for (String, String) {
    fn hide(&mut self) {
        self.1 = "hidden".into();
    }
}

impl Hide for Job {
    fn hide(&mut self) {
        self.spec.body.hide();
        self.spec.metadata.hide();
    }
}

impl Hide for Failure {
    fn hide(&mut self) {
        self.detail.context.hide();
    }
}

impl Hide for ResultView {
    fn hide(&mut self) {
        match self {
            Self::Complete(output) => output.hide(),
            Self::Dead(failure) => failure.hide(),
            Self::Expired | Self::Cancelled => {}
        }
    }
}

impl Hide for JobView {
    fn hide(&mut self) {
        self.job.hide();
        self.last_failure.hide();
        self.result.hide();
        self.checkpoint.hide();
        if let Some(progress) = &mut self.progress {
            progress.note.clear();
        }
    }
}

impl Hide for Schedule {
    fn hide(&mut self) {
        self.stored.record.schedule.body.hide();
        self.stored.record.schedule.metadata.hide();
    }
}

impl Hide for RecentAttempt {
    fn hide(&mut self) {
        self.hide_log();
    }
}

//! Schedules, by way of the server.

use anyhow::anyhow;
use async_trait::async_trait;

use super::exchange::Question;
use super::store::RemoteStore;
use crate::problem::Code;
use crate::wire;
use crate::wire::schedule::{RunSchedule, Schedule, ScheduleAnswer, Schedules as Listed};
use gristmill_core::job::Name;
use gristmill_core::schedule::ScheduleId;
use gristmill_store::{ScheduleChange, ScheduleChanged, Schedules, StoreError, StoredSchedule};

const LIST: &str = "list schedules";
const CHANGE: &str = "change a schedule";

#[async_trait]
impl Schedules for RemoteStore {
    async fn schedules(&self, tenant: &Name, only: Option<&ScheduleId>) -> Result<Vec<StoredSchedule>, StoreError> {
        let Some(id) = only else {
            let question = Question::get(format!("/v1/tenants/{tenant}/schedules"), LIST);
            let Listed { schedules } = self.server.ask(question).await?;
            return Ok(schedules.into_iter().map(|schedule| schedule.stored).collect());
        };
        let question = Question::get(path(id), LIST);
        let found: Option<Schedule> = self.server.ask_about(question, &[Code::ScheduleUnknown]).await?;
        Ok(found.into_iter().map(|found| found.stored).collect())
    }

    async fn change_schedule(&self, id: &ScheduleId, change: &ScheduleChange) -> Result<ScheduleChanged, StoreError> {
        let path = path(id);
        let post = |verb: &str| Question::post(format!("{path}/{verb}"), &wire::Nothing {}, CHANGE);
        let question = match change {
            ScheduleChange::Put(schedule) => Question::put(path, &**schedule, CHANGE),
            ScheduleChange::Pause => post("pause"),
            ScheduleChange::Resume => post("resume"),
            ScheduleChange::Run(job) => {
                Question::post(format!("{path}/run"), &RunSchedule { id: Some(job.clone()) }, CHANGE)
            }
            ScheduleChange::Remove => Question::delete(path, CHANGE),
            ScheduleChange::Export | ScheduleChange::Import(_) | ScheduleChange::RemoveExported => {
                let source = anyhow!("schedules move between stores, not by way of a server");
                return Err(StoreError::Refused { store: self.server.name.clone(), doing: CHANGE, source });
            }
        };
        match self.server.ask_if_known::<ScheduleAnswer>(question).await? {
            Ok(answer) => Ok(answer.status),
            Err(problem) => match problem.code {
                Code::ScheduleUnknown => Ok(ScheduleChanged::Unknown),
                Code::ScheduleOfManifest => Ok(ScheduleChanged::OfManifest),
                Code::TooManySchedules => Ok(ScheduleChanged::TooMany),
                _ => Err(self.server.refused(CHANGE, &problem)),
            },
        }
    }
}

fn path(ScheduleId { topic, name }: &ScheduleId) -> String {
    format!("/v1/tenants/{}/schedules/{}/{name}", topic.tenant, topic.topic)
}

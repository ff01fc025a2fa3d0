//! Schedules: list, look at, make, change, pause, resume, run, remove.

use axum::Json;

use crate::auth::allowed::{Allowed, scope};
use crate::extract::Document;
use crate::new_jobs::{Admitted, JobLabel};
use crate::problem::{Code, Problem};
use crate::routes::Routes;
use crate::state::AppState;
use crate::wire;
use crate::wire::schedule::{RunSchedule, Schedule, ScheduleAnswer, Schedules};
use gristmill_core::job::{Due, JobId, Name, NewJob, TopicId};
use gristmill_core::schedule::{self, SCHEDULES_PER_TENANT, ScheduleId};
use gristmill_store::{ScheduleChange, ScheduleChanged};

const PUT: &str = "Replaces all of the schedule. Its name makes it the same schedule: what it did stays, and so does a pause. If its ticks \
    are others, those that were due before are forgotten. A schedule that a manifest made is refused.";
const RUN: &str = "Pushes one job, whatever the schedule says of overlaps, and also if it is paused.";

/// What the path names: a tenant, a topic, and a schedule.
type InPath = (Name, Name, Name);

pub(crate) fn routes() -> Routes {
    let path = "/tenants/{tenant}/schedules/{topic}/{schedule}";
    let unknown = &[Code::ScheduleUnknown];
    Routes::of("schedules")
        .get("/tenants/{tenant}/schedules", list, "List a tenant's schedules")
        .get(path, show, "Look at a schedule")
        .problems(unknown)
        .put(path, put, "Make or change a schedule")
        .description(PUT)
        .problems(&[
            Code::TopicUnknown,
            Code::TooManyJobs,
            Code::TooManyBytes,
            Code::TooManyTopics,
            Code::ScheduleOfManifest,
            Code::TooManySchedules,
        ])
        .delete(path, remove, "Remove a schedule")
        .problems(&[Code::ScheduleUnknown, Code::ScheduleOfManifest])
        .post(&format!("{path}/pause"), pause, "Pause a schedule")
        .problems(unknown)
        .post(&format!("{path}/resume"), resume, "Resume a schedule: what was due meanwhile is forgotten")
        .problems(unknown)
        .post(&format!("{path}/run"), run, "Run a schedule now")
        .description(RUN)
        .problems(&[
            Code::ScheduleUnknown,
            Code::TopicUnknown,
            Code::TooManyJobs,
            Code::TooManyBytes,
            Code::TooManyTopics,
        ])
}

async fn list(
    Allowed { over: tenant, identity, state, .. }: Allowed<scope::Read, Name>,
) -> Result<Json<Schedules>, Problem> {
    let schedules = state.store.schedules(&tenant, None).await?;
    let schedules: Vec<Schedule> = schedules.into_iter().map(Schedule::from).collect();
    Ok(Json(Schedules { schedules: state.shown(&identity, &tenant, schedules) }))
}

async fn show(Allowed { over, identity, state, .. }: Allowed<scope::Read, InPath>) -> Result<Json<Schedule>, Problem> {
    let id = id(over);
    let found = state.store.schedules(&id.topic.tenant, Some(&id)).await?.pop().ok_or_else(|| unknown(&id))?;
    Ok(Json(state.shown(&identity, &id.topic.tenant, found.into())))
}

async fn put(
    Allowed { over, state, .. }: Allowed<scope::Admin, InPath>,
    Document(mut schedule): Document<schedule::Schedule>,
) -> Result<Json<ScheduleAnswer>, Problem> {
    let id = id(over);
    schedule.ticks().map_err(|bad| Problem::new(Code::BadRequest, bad.to_string()))?;
    let Admitted { jobs, warnings } = state.admit(vec![sample(&schedule, &id)], &JobLabel::Alone).await?;
    schedule.ttl = jobs.into_iter().next().and_then(|job| job.spec.options.ttl);
    let answer = change(&state, &id, ScheduleChange::Put(Box::new(schedule))).await?;
    Ok(Json(ScheduleAnswer { warnings, ..answer }))
}

async fn remove(Allowed { over, state, .. }: Allowed<scope::Admin, InPath>) -> Result<Json<ScheduleAnswer>, Problem> {
    change(&state, &id(over), ScheduleChange::Remove).await.map(Json)
}

async fn pause(
    Allowed { over, state, .. }: Allowed<scope::Admin, InPath>,
    Document(wire::Nothing {}): Document<wire::Nothing>,
) -> Result<Json<ScheduleAnswer>, Problem> {
    change(&state, &id(over), ScheduleChange::Pause).await.map(Json)
}

async fn resume(
    Allowed { over, state, .. }: Allowed<scope::Admin, InPath>,
    Document(wire::Nothing {}): Document<wire::Nothing>,
) -> Result<Json<ScheduleAnswer>, Problem> {
    change(&state, &id(over), ScheduleChange::Resume).await.map(Json)
}

async fn run(
    Allowed { over, state, .. }: Allowed<scope::Admin, InPath>,
    Document(RunSchedule { id: job }): Document<RunSchedule>,
) -> Result<Json<ScheduleAnswer>, Problem> {
    let id = id(over);
    let found = state.store.schedules(&id.topic.tenant, Some(&id)).await?.pop().ok_or_else(|| unknown(&id))?;
    let Admitted { warnings, .. } = state.admit(vec![sample(&found.record.schedule, &id)], &JobLabel::Alone).await?;
    let job = job.unwrap_or_else(JobId::generate);
    let answer = change(&state, &id, ScheduleChange::Run(job.clone())).await?;
    Ok(Json(ScheduleAnswer { job: Some(job), warnings, ..answer }))
}

/// A job such as the schedule makes, to be held to the rules for new jobs.
fn sample(schedule: &schedule::Schedule, id: &ScheduleId) -> NewJob {
    NewJob { spec: schedule.spec(id, JobId::generate()), due: Due::Now }
}

async fn change(state: &AppState, id: &ScheduleId, change: ScheduleChange) -> Result<ScheduleAnswer, Problem> {
    state.tenants.note(&id.topic.tenant);
    match state.store.change_schedule(id, &change).await? {
        ScheduleChanged::Unknown => Err(unknown(id)),
        ScheduleChanged::OfManifest => {
            let detail = format!("a manifest made the schedule {id}: change it there");
            Err(Problem::new(Code::ScheduleOfManifest, detail))
        }
        ScheduleChanged::TooMany => {
            let detail = format!("there are {SCHEDULES_PER_TENANT} schedules already: remove some first");
            Err(Problem::new(Code::TooManySchedules, detail))
        }
        status => Ok(ScheduleAnswer { status, job: None, warnings: Vec::new() }),
    }
}

fn id((tenant, topic, name): InPath) -> ScheduleId {
    ScheduleId { topic: TopicId { tenant, topic }, name }
}

fn unknown(id: &ScheduleId) -> Problem {
    Problem::new(Code::ScheduleUnknown, format!("there is no schedule {id}"))
}

use gristmill_guest::{AfterFailed, Failure, Job, NewJob, handler};

handler!(link);

pub fn link(job: Job) -> Result<String, Failure> {
    match job.text()? {
        "fan" => {
            let gather = NewJob::to(&job.topic).body("gather").after_jobs([&job.id]).after_failed(AfterFailed::Run);
            let batch = gather.open().enqueue()?;
            let bad = NewJob::to(&job.topic).body("bad").batch(&batch).enqueue()?;
            NewJob::to(&job.topic).body("good").after_jobs([bad]).batch(&batch).enqueue()?;
            Ok(batch)
        }
        "gather" => Ok(job.meta("predecessors").unwrap_or_default().to_owned()),
        "wrong" => Ok(NewJob::to(&job.topic).batch("no id!").enqueue()?),
        _ => Err(Failure::reject("bad", "as requested")),
    }
}

from typing import Optional

from gristmill_guest import Job, Reject, enqueue, handler


@handler
def link(job: Job) -> Optional[str]:
    body = job.text()
    if body == "fan":
        batch = enqueue(job.topic, "gather", after_jobs=[job.id], after_failed="run", open=True)
        bad = enqueue(job.topic, "bad", batch=batch)
        enqueue(job.topic, "good", after_jobs=[bad], batch=batch)
        return batch
    if body == "gather":
        return job.meta("predecessors")
    if body == "wrong":
        return enqueue(job.topic, batch="no id!")
    raise Reject("bad", "as requested")

from gristmill import Job, Retry, checkpoint, handler, state


@handler
def count(job: Job) -> str:
    if job.text() == "large":
        checkpoint(b"x" * 2000)
    seen = state.json(0) + 1
    state.set_json(seen)
    if job.text() == "fail" and job.attempt == 1:
        raise Retry("later", "after the state was set")
    return str(seen)

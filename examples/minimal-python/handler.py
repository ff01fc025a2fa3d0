from gristmill_guest import Job, handler, log


@handler
def greet(job: Job) -> dict:
    name = job.json()["name"]
    log.info("greet", name=name)
    return {"hello": name}

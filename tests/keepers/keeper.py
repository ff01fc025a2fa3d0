from gristmill_guest import Job, Retry, checkpoint, handler, progress, state


def deep(calls: int) -> int:
    return deep(calls + 1) + 1


@handler
def count(job: Job) -> str:
    if job.text() == "progress":
        progress(0.5, "half")
        return ""
    if job.text() == "crash":
        raise RuntimeError("on purpose")
    if job.text() == "deep":
        return str(deep(0))
    everything: list[bytes] = []
    while job.text() == "hoard":
        everything.append(bytes(1 << 20))
    if job.text() == "large":
        checkpoint(b"x" * 2000)
    seen = state.json(0) + 1
    state.set_json(seen)
    if job.text() == "fail" and job.attempt == 1:
        raise Retry("later", "after the state was set")
    return str(seen)

"""Sends the request that its body names, such as `GET http://…`; the result is what came back."""

from datetime import timedelta

from gristmill_guest import Job, handler, http


@handler
def handle(job: Job) -> str:
    method, _, url = job.text().partition(" ")
    more = {}
    if method == "POST":
        more = {"headers": [("x-kept", "1"), ("x-kept", "2")], "body": b"hello", "timeout": timedelta(seconds=20)}
    if method == "SLOW":
        method, more = "GET", {"timeout": timedelta(milliseconds=50)}
    answer = http.send(method, url, redirects=1, **more)
    return f"{answer.status} {answer.header('X-A') or ''} {answer.text()}"

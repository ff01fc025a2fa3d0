"""A client of lmstfy as people write them: one connection that is kept alive, and nothing that this project has made.

Usage: client.py PORT ADMIN_PORT
"""

import base64
import http.client
import json
import sys
from urllib.parse import urlencode

port, admin_port = map(int, sys.argv[1:])


class Lmstfy:
    def __init__(self, namespace, token):
        self.namespace, self.headers = namespace, {"X-Token": token}
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(self, method, path, body=None, headers={}, **query):
        url = f"/api/{self.namespace}/{path}?{urlencode(query)}"
        self.connection.request(method, url, body, {**self.headers, **headers})
        answer = self.connection.getresponse()
        text = answer.read()
        assert len(answer.headers["X-Request-ID"]) == 26
        return answer.status, json.loads(text) if text else None

    def publish(self, queue, data, **query):
        status, answer = self.ask("PUT", queue, data, **query)
        assert status == 201 and answer["msg"] == "published", answer
        return answer["job_id"]

    def consume(self, *queues, **query):
        status, answer = self.ask("GET", ",".join(queues), **query)
        assert status in (200, 404), answer
        return answer if status == 200 else None

    def ack(self, queue, job_id):
        assert self.ask("DELETE", f"{queue}/job/{job_id}") == (204, None)


def admin(method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", admin_port, timeout=60)
    connection.request(method, path, body)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read() or b"null")


status, made = admin("POST", "/token/py?description=python&scope=push,work,read,admin")
assert status == 201
client = Lmstfy("py", made["token"])

# A job's life.
job_id = client.publish("q", b"\x00\xffhello", ttl=60, tries=2)
assert client.ask("GET", "q/size")[1]["size"] == 1
job = client.consume("other", "q", ttr=30, timeout=3)
assert (job["job_id"], base64.b64decode(job["data"]), job["remain_tries"]) == (job_id, b"\x00\xffhello", 1), job
client.ack("q", job_id)
assert client.ask("GET", f"q/job/{job_id}") == (404, {"error": "job not found"})
assert client.consume("q", timeout=0) is None

# Many, in order.
bodies = ["one", {"two": 2}, [3]]
status, many = client.ask("PUT", "q/bulk", json.dumps(bodies).encode(), tries=1)
jobs = client.consume("q", count=100, ttr=60)
assert [job["job_id"] for job in jobs] == many["job_ids"]
assert [json.loads(base64.b64decode(job["data"])) for job in jobs] == bodies
for job in jobs:
    client.ack("q", job["job_id"])

# Attributes.
versioned = {"Enable-Job-Version": "YES", "Job-Attr-Colour": "red"}
status, answer = client.ask("PUT", "q", b"", versioned)
assert client.consume("q")["attributes"] == {"colour": "red"}

# Death and back: the ttr is over at once.
job_id = client.publish("mortal", b"x", tries=1)
assert client.consume("mortal", ttr=0)["job_id"] == job_id
while client.ask("GET", "mortal/deadletter")[1]["deadletter_head"] != job_id:
    pass
assert client.ask("PUT", "mortal/deadletter", limit=2, ttl=60) == (200, {"msg": "respawned", "count": 1})
assert client.consume("mortal", ttr=60, timeout=10)["job_id"] == job_id

# Nobody else, and nobody any more.
assert Lmstfy("py", "wrong").ask("GET", "q") == (401, {"error": "invalid token"})
assert admin("DELETE", f"/token/py/{made['token']}")[0] == 204
admin("POST", "/token/py?description=another")
assert client.ask("GET", "q") == (401, {"error": "invalid token"})
print("all is well")

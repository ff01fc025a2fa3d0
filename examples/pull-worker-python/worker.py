"""A pull worker: does the jobs of a topic with `handler = "external"`. Python 3.9 or later, nothing else."""

import base64, json, os, sys, time, urllib.request

SERVER = os.environ.get("GRISTMILL_SERVER", "http://127.0.0.1:7331") + "/v1/tenants/default"
TOKEN = os.environ.get("GRISTMILL_TOKEN")


def ask(path, document):
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {TOKEN}"} if TOKEN else {})
    request = urllib.request.Request(SERVER + path, json.dumps(document).encode(), headers)
    return json.load(urllib.request.urlopen(request, timeout=90))


def work(body):  # what the jobs are about: put yours here
    return body.decode().upper().encode()


def claims(topic):  # of one job: with more, the leases of the last ones run out while the first are worked on
    wish = {"max": 1, "wait_ms": 60_000, "lease_ms": 60_000, "worker": "example"}
    try:
        return ask(f"/topics/{topic}/claim", wish)["claims"]
    except OSError as error:  # the server is away, or says no (urllib's errors are OSErrors)
        print(f"no claim: {error}", file=sys.stderr, flush=True)
        time.sleep(1)
        return []


def do(claim):
    try:
        body = claim["job"]["spec"]["body"]  # has `text`, or `base64` if it is none
        result = work(body["text"].encode() if "text" in body else base64.b64decode(body["base64"]))
        end = {"ack": {"result": {"base64": base64.b64encode(result).decode(), "content_type": "text/plain"}}}
    except Exception as error:
        end = {"retry": {"error": {"code": type(error).__name__, "message": str(error)}}}
    try:
        settled = ask("/leases/settle", {"settlements": [{"lease": claim["lease"], **end}]})["settled"]
    except OSError as error:  # then the lease runs out, and the job is tried again
        settled = [f"not settled: {error}"]
    print(claim["job"]["spec"]["id"], settled[0], flush=True)


if len(sys.argv) != 2:
    sys.exit("name a topic: python3 worker.py shout")
while True:
    for claim in claims(sys.argv[1]):
        do(claim)

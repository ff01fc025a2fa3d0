"""A pull worker: does the jobs of a topic with `handler = "external"`. Python 3.9 or later, nothing else."""

import base64, json, os, sys, urllib.request

SERVER = os.environ.get("GRISTMILL_URL", "http://127.0.0.1:7331") + "/v1/tenants/default"
TOKEN = os.environ.get("GRISTMILL_TOKEN")


def ask(path, document):
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {TOKEN}"} if TOKEN else {})
    request = urllib.request.Request(SERVER + path, json.dumps(document).encode(), headers)
    return json.load(urllib.request.urlopen(request, timeout=90))


def work(body):  # what the jobs are about: put yours here
    return body.decode().upper().encode()


while True:
    wish = {"max": 10, "wait_ms": 60_000, "lease_ms": 60_000, "worker": "example"}
    for claim in ask(f"/topics/{sys.argv[1]}/claim", wish)["claims"]:
        try:
            result = work(base64.b64decode(claim["job"]["spec"]["body"]["base64"]))
            end = {"ack": {"result": {"base64": base64.b64encode(result).decode(), "content_type": "text/plain"}}}
        except Exception as error:
            end = {"retry": {"error": {"code": type(error).__name__, "message": str(error)}}}
        settled = ask("/leases/settle", {"settlements": [{"lease": claim["lease"], **end}]})["settled"]
        print(claim["job"]["spec"]["id"], settled[0], flush=True)

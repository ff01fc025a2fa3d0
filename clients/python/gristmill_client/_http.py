"""Requests to a server, with the standard library."""

import http.client
import json
import random
import time
import urllib.parse

BROKEN = (OSError, http.client.HTTPException, ValueError)  # no answer, or half of one
AGAIN = (429, 502, 503, 504)
MOST_WAIT = 60  # seconds: if the server asks for more patience, the caller gets its error


class GristmillError(Exception):
    """What the server refused, by its problem document. `status` is 0 without an answer; then `code` is `unreachable` or `wait-timeout`."""

    def __init__(self, code, title, detail, status=0, retry_after=0):
        super().__init__(f"{code}: {detail}")
        self.code, self.title, self.detail, self.status, self.retry_after = code, title, detail, status, retry_after
        self.is_temporary = status in AGAIN or code == "unreachable"


class Http:
    """Sends requests, each on a connection of its own."""

    repeats = True

    def __init__(self, server, token, tries):
        self.url, self.tries = urllib.parse.urlsplit(server), tries
        if self.url.scheme not in ("http", "https") or not self.url.hostname:
            raise ValueError(f"the address of a server begins with http:// or https://, not: {server}")
        self.headers = {"Connection": "close"} | ({"Authorization": f"Bearer {token}"} if token else {})

    def call(self, method, path, document=None, headers=None, tries=None, opened=lambda _: None):
        """The answer's document, and how many tries it took. `opened` gets each connection before it is used."""
        for tried in range(1, 1000):
            try:
                return self.send(method, path, document, headers, 60, opened), tried
            except GristmillError as error:
                wait = max(0.1 * 2**tried * random.uniform(0.5, 1), error.retry_after)
                if tried >= (tries or self.tries) or not error.is_temporary or wait > MOST_WAIT:
                    raise
                time.sleep(wait)

    def send(self, method, path, document, headers, timeout, opened=lambda _: None, is_stream=False):
        kind = http.client.HTTPSConnection if self.url.scheme == "https" else http.client.HTTPConnection
        connection = kind(self.url.hostname, self.url.port, timeout=timeout)
        body = None if document is None else json.dumps(document).encode()
        headers = self.headers | (headers or {}) | ({"Content-Type": "application/json"} if body else {})
        try:
            connection.connect()
            opened(connection)
            connection.request(method, self.url.path.rstrip("/") + path, body, headers)
            answer = connection.getresponse()
            if answer.status < 300:
                return answer if is_stream else json.load(answer)
            text = answer.read()
        except BROKEN as error:
            # Without the user and the password of the address: they are nobody's business in a log.
            server = self.url.geturl().rpartition("@")[2]
            detail = f"failed to get an answer of the server at {server}: {error!r}; does it run there, with that scheme?"
            raise GristmillError("unreachable", "No answer", detail) from error
        after = int(after) if (after := answer.headers.get("Retry-After", "")).isdigit() else 0
        said = {"code": "no-problem-document", "title": answer.reason, "detail": text[:1000].decode(errors="replace")}
        if answer.status < 400:
            said["detail"] = f"the server redirects to {answer.headers.get('Location')}: name that address"
        if answer.headers.get_content_subtype() == "problem+json":  # else it is a proxy's answer
            said = json.loads(text)
        raise GristmillError(said["code"], said["title"], said["detail"], answer.status, after)

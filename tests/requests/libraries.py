"""Sends the request that its body names, such as `urllib http://…`, with an ordinary library; the result is what came back."""

import http.client
import smtplib
import socket
import urllib.error
import urllib.parse
import urllib.request

import requests

from gristmill_guest import Job, handler

HEADERS = {"X-Kept": "1"}


@handler
def handle(job: Job) -> str:
    library, _, url = job.text().partition(" ")
    if library == "sockets":
        return "\n".join(without_sockets())
    if library == "urllib":
        with urllib.request.urlopen(urllib.request.Request(url, b"hello", HEADERS), timeout=20) as answer:
            return f"{answer.status} {answer.headers.get('x-a', '')} {answer.read().decode()}"
    if library == "client":
        parts = urllib.parse.urlsplit(url)
        connection = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}[parts.scheme](parts.netloc, timeout=20)
        connection.request("POST", parts.path, iter([b"hel", b"lo"]), HEADERS, encode_chunked=True)
        answer = connection.getresponse()
        return f"{answer.status} {answer.headers.get('x-a', '')} {answer.read().decode()}"
    with requests.Session() as session:
        answer = session.post(url, "hello", headers=HEADERS, timeout=20)
        return f"{answer.status_code} {answer.headers.get('x-a', '')} {answer.text}"


def without_sockets():
    """Whatever is no request over HTTP is an ordinary error."""
    tries = {
        "datagram": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        "name": lambda: socket.gethostbyname("example.org"),
        "server": lambda: socket.create_server(("127.0.0.1", 8080)),
        "mail": lambda: smtplib.SMTP("127.0.0.1", 25),
    }
    for name, work in tries.items():
        try:
            yield f"{name}: {work()}"
        except OSError as error:
            yield f"{name}: {error}"

"""HTTP for the libraries that bring their own, such as `urllib.request`, `http.client` and `requests`, inside a component.

There are no sockets in a component, and no TLS. What a library writes to a socket is read here as a request, sent by the runner under the topic's
grants, and its answer is what the library reads. Anything else that it tries with a socket is an `OSError`.

Only `component` imports this, before the handler's modules.
"""

from __future__ import annotations

import errno
import io
import sys
import types
from typing import Any, Callable, Optional

from . import _host
from ._failure import Reject, http_failure
from ._http import Request, Response

_NO_SOCKETS = "a component has no sockets: it can send requests over HTTP, to the hosts that the manifest grants its topic"

#: Headers that concern one connection. The runner makes its own.
_HOP_BY_HOP = {"connection", "content-length", "expect", "host", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}


def _refused(*_given: Any, **_named: Any) -> Any:
    raise PermissionError(errno.EACCES, _NO_SOCKETS)


class Socket:
    """What stands for a socket: it takes one request and gives its answer."""

    def __init__(self, family: int = -1, type: int = -1, proto: int = -1, fileno: Optional[int] = None) -> None:
        import socket

        if fileno is not None or type not in (-1, socket.SOCK_STREAM):
            _refused()
        self.family, self.type, self.proto = family, type, proto
        self._peer: tuple[str, int] = ("", 0)
        self._is_secure = False
        self._timeout: Optional[float] = None
        self._sent = b""
        self._answer: Optional[io.BytesIO] = None

    def connect(self, address: Any) -> None:
        if not isinstance(address, tuple):
            _refused()
        self._peer = address[:2]

    def secured(self) -> Socket:
        """The runner speaks TLS, and looks at the certificate."""
        self._is_secure = True
        return self

    def sendall(self, data: Any, flags: int = 0) -> None:
        self._sent += bytes(data)

    def send(self, data: Any, flags: int = 0) -> int:
        self.sendall(data)
        return len(data)

    def recv(self, size: int, flags: int = 0) -> bytes:
        return self._answered().read(size)

    def recv_into(self, buffer: Any, size: int = 0, flags: int = 0) -> int:
        return self._answered().readinto(memoryview(buffer)[: size or None])

    def makefile(self, mode: str = "r", buffering: Optional[int] = None, **_text: Any) -> Any:
        return self._answered() if mode == "rb" else _refused()

    def _answered(self) -> io.BytesIO:
        if self._answer is None:
            self._answer = io.BytesIO(_exchange(self._sent, self._peer, self._is_secure, self._timeout))
        return self._answer

    def settimeout(self, timeout: Optional[float]) -> None:
        self._timeout = timeout

    def gettimeout(self) -> Optional[float]:
        return self._timeout

    def setblocking(self, is_blocking: bool) -> None:
        self.settimeout(None if is_blocking else 0.0)

    def setsockopt(self, *_given: Any) -> None:
        """There are no options to set."""

    def getsockopt(self, *_given: Any) -> int:
        return 0

    def getpeername(self) -> tuple[str, int]:
        return self._peer

    def getpeercert(self, binary_form: bool = False) -> Any:
        return b"" if binary_form else {}

    def selected_alpn_protocol(self) -> None:
        """HTTP/1.1."""

    def version(self) -> str:
        return "TLSv1.3"

    def fileno(self) -> int:
        return -1

    def shutdown(self, how: int) -> None:
        """Nothing is under way."""

    def close(self) -> None:
        """Nothing is open."""

    def __enter__(self) -> Socket:
        return self

    def __exit__(self, *_error: Any) -> None:
        self.close()

    bind = listen = accept = connect_ex = sendto = sendmsg = sendfile = recvfrom = recvmsg = getsockname = detach = dup = _refused


def _exchange(sent: bytes, peer: tuple[str, int], is_secure: bool, timeout: Optional[float]) -> bytes:
    """The bytes of the answer to a request in HTTP/1.1."""
    head, _, body = sent.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, version = (first.split(" ") + ["", ""])[:3]
    if not version.startswith("HTTP/1."):
        _refused()
    headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    if any(name.lower() == "transfer-encoding" for name, _ in headers):
        body = _of_chunks(body)
    host, port = f"[{peer[0]}]" if ":" in peer[0] else peer[0], peer[1]
    url = target if "://" in target else f"{'https' if is_secure else 'http'}://{host}:{port}{target}"
    kept = [(name, value) for name, value in headers if name.lower() not in _HOP_BY_HOP]
    limit = None if timeout is None else max(1, round(timeout * 1000))
    request = Request(method, url, kept, body or None, limit, 0)
    answer = Response(**_host.current.send(request, _failed))
    return _written(answer, method)


def _of_chunks(body: bytes) -> bytes:
    whole = b""
    while True:
        line, _, body = body.partition(b"\r\n")
        size = int(line.partition(b";")[0] or b"0", 16)
        if size == 0:
            return whole
        whole, body = whole + body[:size], body[size + 2 :]


def _written(answer: Any, method: str) -> bytes:
    headers = [(name, value) for name, value in answer.headers if name not in _HOP_BY_HOP]
    length = answer.header("content-length") if method == "HEAD" else str(len(answer.body))
    if length is not None and answer.status not in (204, 304):
        headers.append(("content-length", length))
    lines = [f"HTTP/1.1 {answer.status} ", *(f"{name}: {value}" for name, value in headers), "connection: close", "", ""]
    return "\r\n".join(lines).encode("latin-1", "replace") + answer.body


def _failed(kind: str, about: Any) -> Exception:
    """What the contract says in place of an answer, as an error that libraries know. `failure` is what it makes of an attempt."""
    failure = http_failure(kind, about)
    if kind == "HttpError_Timeout":
        error: OSError = TimeoutError(errno.ETIMEDOUT, failure.message)
    elif isinstance(failure, Reject):
        error = PermissionError(errno.EACCES, failure.message)
    else:
        error = ConnectionRefusedError(errno.ECONNREFUSED, failure.message)
    error.failure = failure  # type: ignore[attr-defined]
    return error


def _getaddrinfo(host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0) -> list[Any]:
    """The runner looks names up: here each is its own address."""
    import socket

    if type not in (0, socket.SOCK_STREAM) or not host:
        _refused()
    name = host.decode() if isinstance(host, bytes) else host
    return [(socket.AF_INET6 if ":" in name else socket.AF_INET, socket.SOCK_STREAM, 6, "", (name, int(port or 0)))]


def replace_sockets() -> None:
    """Once the handler's modules are imported: what they import is all that the component has."""
    if socket := sys.modules.get("socket"):
        # Names of hosts are encoded by these, and nothing can be imported later.
        import encodings.idna  # noqa: F401
        import encodings.punycode  # noqa: F401

        socket.socket, socket.getaddrinfo = Socket, _getaddrinfo  # type: ignore[attr-defined]
        for name in ("gethostbyname", "gethostbyname_ex", "gethostbyaddr", "getnameinfo", "socketpair", "create_server", "fromfd"):
            setattr(socket, name, _refused)
    if ssl := sys.modules.get("ssl"):
        ssl.SSLContext.wrap_socket = lambda self, sock, *given, **named: sock.secured()  # type: ignore[attr-defined]
        ssl.SSLContext.wrap_bio = _refused  # type: ignore[attr-defined]
    if adapters := sys.modules.get("requests.adapters"):
        # It looks for a file of certificates, and there are no files.
        adapters.HTTPAdapter.cert_verify = lambda *given: None  # type: ignore[attr-defined]


class _Context:
    """The settings of TLS. They change nothing: the runner looks at every certificate."""

    options = 0
    verify_flags = 0
    minimum_version = 0x0303
    maximum_version = 0x0304
    check_hostname = False
    hostname_checks_common_name = False
    post_handshake_auth = False
    keylog_filename = None
    _host_flags = 0
    _msg_callback = None

    def __new__(cls, *_given: Any) -> _Context:
        return super().__new__(cls)

    def _ignore(self, *_given: Any, **_named: Any) -> None:
        pass

    load_verify_locations = set_default_verify_paths = set_ciphers = _set_alpn_protocols = set_ecdh_curve = load_cert_chain = _ignore

    def get_ca_certs(self, binary_form: bool = False) -> list:
        return []

    get_ciphers = get_ca_certs


def _settings(*names: str) -> dict[str, Any]:
    """Properties, since `ssl` sets them by those of its base class."""

    def setting(name: str) -> property:
        kept, default = f"_{name}", getattr(_Context, name, 0)
        return property(lambda self: getattr(self, kept, default), lambda self, value: setattr(self, kept, value))

    return {name: setting(name) for name in names}


def _stand_in() -> types.ModuleType:
    """`_ssl`, which CPython is built without for a component; with it, `import ssl` works."""
    made = types.ModuleType("_ssl", "What the module `ssl` takes from OpenSSL.")

    class SSLError(OSError):
        """An error of TLS."""

    settings = _settings("options", "verify_flags", "verify_mode", "minimum_version", "maximum_version")
    names: dict[str, Any] = {"_SSLContext": type("_SSLContext", (_Context,), settings), "SSLError": SSLError}
    for name in ("ZeroReturn", "WantRead", "WantWrite", "Syscall", "EOF", "CertVerification"):
        bases = (SSLError, ValueError) if name == "CertVerification" else (SSLError,)
        names[f"SSL{name}Error"] = type(f"SSL{name}Error", bases, {})
    names |= {name: type(name, (), {}) for name in ("MemoryBIO", "SSLSession", "Certificate")}
    functions: dict[str, Callable[..., Any]] = {
        "txt2obj": lambda text, name=False: (0, text, text, text),
        "nid2obj": lambda nid: (nid, "", "", ""),
        "RAND_status": lambda: True,
        "RAND_add": lambda *given: None,
        "RAND_bytes": lambda size: __import__("os").urandom(size),
        "get_default_verify_paths": lambda: ("SSL_CERT_FILE", "", "SSL_CERT_DIR", ""),
        "get_sigalgs": lambda: [],
    }
    names |= functions
    names |= {"OPENSSL_VERSION": "OpenSSL 3.0.0", "OPENSSL_VERSION_INFO": (3, 0, 0, 0, 0), "OPENSSL_VERSION_NUMBER": 0x30000000}
    names |= {"_OPENSSL_API_VERSION": (3, 0, 0, 0, 0), "_DEFAULT_CIPHERS": "DEFAULT", "HOSTFLAG_NEVER_CHECK_SUBJECT": 32}
    names |= {f"HAS_{name}": name in ("SNI", "ALPN", "TLSv1_3", "TLSv1_2") for name in _HAS}
    names |= {f"PROTOCOL_{name}": at for at, name in enumerate(("SSLv2", "SSLv3", "TLS", "TLSv1", "TLSv1_1", "TLSv1_2"))}
    names |= {"PROTOCOL_TLS_CLIENT": 16, "PROTOCOL_TLS_SERVER": 17, "PROTOCOL_SSLv23": 2}
    names |= {f"CERT_{name}": at for at, name in enumerate(("NONE", "OPTIONAL", "REQUIRED"))}
    names |= {f"OP_{name}": 1 << at for at, name in enumerate(_OPTIONS)}
    names |= {f"VERIFY_{name}": flag for name, flag in (("DEFAULT", 0), ("CRL_CHECK_LEAF", 4), ("CRL_CHECK_CHAIN", 12), ("X509_STRICT", 32))}
    names |= {"VERIFY_X509_TRUSTED_FIRST": 0x8000, "VERIFY_X509_PARTIAL_CHAIN": 0x80000, "VERIFY_ALLOW_PROXY_CERTS": 64}
    names |= {f"SSL_ERROR_{name}": at for at, name in enumerate(_ERRORS)}
    names |= {"ALERT_DESCRIPTION_CLOSE_NOTIFY": 0, "ALERT_DESCRIPTION_INTERNAL_ERROR": 80}
    versions = {"SSLv3": 0x300, "TLSv1": 0x301, "TLSv1_1": 0x302, "TLSv1_2": 0x303, "TLSv1_3": 0x304}
    names |= {f"PROTO_{name}": number for name, number in ({"MINIMUM_SUPPORTED": -2, "MAXIMUM_SUPPORTED": -1} | versions).items()}
    vars(made).update(names)
    return made


_HAS = ("SNI", "ECDH", "NPN", "ALPN", "SSLv2", "SSLv3", "TLSv1", "TLSv1_1", "TLSv1_2", "TLSv1_3", "PSK", "PSK_TLS13", "PHA")
_OPTIONS = (
    "ALL NO_SSLv2 NO_SSLv3 NO_TLSv1 NO_TLSv1_1 NO_TLSv1_2 NO_TLSv1_3 NO_COMPRESSION NO_TICKET NO_RENEGOTIATION SINGLE_DH_USE SINGLE_ECDH_USE "
    "CIPHER_SERVER_PREFERENCE LEGACY_SERVER_CONNECT ENABLE_MIDDLEBOX_COMPAT IGNORE_UNEXPECTED_EOF ENABLE_KTLS"
).split()
_ERRORS = "NONE SSL WANT_READ WANT_WRITE WANT_X509_LOOKUP SYSCALL ZERO_RETURN WANT_CONNECT EOF INVALID_ERROR_CODE".split()

try:
    import _ssl  # noqa: F401
except ModuleNotFoundError:
    sys.modules["_ssl"] = _stand_in()

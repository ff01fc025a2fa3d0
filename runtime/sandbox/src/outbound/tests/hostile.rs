//! Servers that mean harm, or are merely broken. None of them costs more than the grant allows.

use tokio::net::TcpSocket;

use super::server::{Piece, Server, ok};
use super::*;

/// How a request ends whose answer is this.
async fn answered(pieces: Vec<Piece>) -> Result<Response, HttpError> {
    let server = Server::start(move |_| pieces.clone()).await;
    fetch(get(server.url("/"))).await
}

/// The same within a time that is over soon.
async fn soon(pieces: Vec<Piece>) -> Result<Response, HttpError> {
    let server = Server::start(move |_| pieces.clone()).await;
    fetch(Request { timeout: Some(300), ..get(server.url("/")) }).await
}

fn text(text: impl Into<String>) -> Piece {
    Piece::Text(text.into())
}

#[tokio::test]
async fn a_server_that_drips_is_given_up_in_time() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n";
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let cases = [
        vec![Piece::Hang],
        vec![text("HTTP/1.1 200 OK\r\nx: "), Piece::Hang],
        vec![text(head), Piece::Hang],
        vec![text(head), Piece::Endless("x")],
        vec![text(chunked), Piece::Endless("1\r\nx\r\n")],
        vec![text(chunked), Piece::Endless("0")],
        vec![Piece::Endless("HTTP/1.1 100 Continue\r\n\r\n")],
        vec![Piece::Endless("HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n")],
    ];
    for pieces in cases {
        let name = format!("{pieces:?}");
        let answer = soon(pieces).await;
        // An endless chunk size is refused before time is up.
        assert!(matches!(end(&answer), "timeout" | "unreachable"), "{name}: {answer:?}");
    }
}

#[tokio::test]
async fn the_topics_timeout_goes_before_the_guests() {
    let server = Server::start(|_| vec![Piece::Hang]).await;
    let grant = HttpGrant { timeout: Duration::from_millis(50), ..local() };
    let request = Request { timeout: Some(u64::MAX), ..get(server.url("/")) };
    assert_eq!(end(&send(&resolving(&["127.0.0.1"]), grant, request).await), "timeout");
}

#[tokio::test]
async fn a_body_is_held_to_its_limit_however_it_comes() {
    let body = |bytes: usize| "x".repeat(bytes);
    let forms = |bytes: usize| {
        [
            vec![text(ok(&body(bytes)))],
            vec![text(format!("HTTP/1.1 200 OK\r\n\r\n{}", body(bytes))), Piece::Close],
            vec![text(format!(
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{bytes:x}\r\n{}\r\n0\r\n\r\n",
                body(bytes)
            ))],
        ]
    };
    for (bytes, expected) in [(1000, "answer"), (1001, "too large")] {
        for pieces in forms(bytes) {
            let server = Server::start(move |_| pieces.clone()).await;
            let grant = HttpGrant { response_bytes: 1000, ..local() };
            let answer = send(&resolving(&["127.0.0.1"]), grant, get(server.url("/"))).await;
            assert_eq!(end(&answer), expected, "{answer:?}");
        }
    }
}

#[tokio::test]
async fn an_endless_body_ends_at_the_limit() {
    for head in [
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 18446744073709551000\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 5000000000\r\n\r\n",
    ] {
        let server = Server::start(move |_| vec![text(head), Piece::Endless("0123456789abcdef")]).await;
        let grant = HttpGrant { response_bytes: 100, ..local() };
        assert_eq!(end(&send(&resolving(&["127.0.0.1"]), grant, get(server.url("/"))).await), "too large", "{head}");
    }
}

#[tokio::test]
async fn a_huge_head_is_refused() {
    let huge = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(70 << 10));
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(101));
    for pieces in [
        vec![text(huge)],
        vec![text(many)],
        vec![text("HTTP/1.1 200 OK\r\n"), Piece::Endless("x: 0123456789abcdef0123456789abcdef\r\n")],
    ] {
        assert_eq!(end(&answered(pieces).await), "too large");
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_none() {
    for pieces in [
        vec![Piece::Close],
        vec![text("HTTP/1.1 200"), Piece::Close],
        vec![text("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"), Piece::Close],
        vec![text("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n"), Piece::Close],
    ] {
        let name = format!("{pieces:?}");
        assert_eq!(end(&answered(pieces).await), "unreachable", "{name}");
    }
}

#[tokio::test]
async fn an_answer_that_can_be_read_in_two_ways_is_none() {
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 4\r\ncontent-length: 5\r\n\r\nbody",
        "HTTP/1.1 200 OK\r\ncontent-length: +4\r\n\r\nbody",
        "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\nbody",
        "HTTP/1.1 200 OK\r\ncontent-length: 4, 5\r\n\r\nbody",
        "HTTP/1.1 200 OK\r\nx: a\r\n folded: b\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx : a\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx: a\0b\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        "HTTP/2 200 OK\r\n\r\n",
        "SSH-2.0-OpenSSH_9.9\r\n",
        "\0\0\0\0",
    ] {
        assert_eq!(end(&answered(vec![text(answer), Piece::Hang]).await), "unreachable", "{answer:?}");
    }
}

#[tokio::test]
async fn what_comes_after_an_answer_is_not_the_next_one() {
    let answer = |_: &str| vec![text(ok("mine") + &ok("smuggled"))];
    let server = Server::start(answer).await;
    let outbound = resolving(&["127.0.0.1"]);
    for _ in 0..5 {
        assert_eq!(send(&outbound, local(), get(server.url("/"))).await.unwrap().body, b"mine");
    }
}

#[tokio::test]
async fn a_port_without_a_listener_is_unreachable() {
    // Bound, so that no other process gets it, and not listening.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = socket.local_addr().unwrap().port();
    let answer = fetch(get(format!("http://server.example:{port}/hush?hush"))).await;
    assert_eq!(end(&answer), "unreachable");
    let text = format!("{answer:?}");
    assert!(text.contains("server.example") && !text.contains("hush"), "{text}");
}

#[tokio::test]
async fn a_request_whose_caller_left_is_closed() {
    for pieces in [vec![Piece::Hang], vec![text("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n"), Piece::Hang]] {
        let mut server = Server::start(move |_| pieces.clone()).await;
        let request = tokio::spawn(fetch(get(server.url("/"))));
        server.until_seen(1).await;
        request.abort();
        server.until_hung_up(1).await;
    }
}

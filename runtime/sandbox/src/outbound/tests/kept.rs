//! Connections that are kept for the next request.

use super::server::{Piece, Server, ok};
use super::*;

async fn get_as(outbound: &Outbound, topic: &str, grant: &Arc<HttpGrant>, server: &Server) {
    let sent = outbound.send(&topic.parse().unwrap(), grant, get(server.url("/")), REMAINING, Egress::default()).await;
    assert_eq!(sent.answer.unwrap().status, 200);
}

#[tokio::test]
async fn a_topic_uses_its_connection_again_and_no_other_topics() {
    let server = Server::saying(&ok("x")).await;
    let (outbound, grant) = (resolving(&["127.0.0.1"]), Arc::new(local()));
    for topic in ["a", "a", "acme/a", "b", "a", "b"] {
        get_as(&outbound, topic, &grant, &server).await;
    }
    assert_eq!(server.connections(), [0, 0, 1, 2, 0, 2]);
}

#[tokio::test]
async fn another_grant_begins_anew() {
    let mut server = Server::saying(&ok("x")).await;
    let (outbound, grant) = (resolving(&["127.0.0.1"]), Arc::new(local()));
    get_as(&outbound, "a", &grant, &server).await;
    // The manifest was read again, and says the same.
    get_as(&outbound, "a", &Arc::new(local()), &server).await;
    let other = Arc::new(HttpGrant { requests: 1, ..local() });
    get_as(&outbound, "a", &other, &server).await;
    assert_eq!(server.connections(), [0, 0, 1]);
    server.until_hung_up(1).await;
}

#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_is_replaced() {
    let server = Server::start(|_| vec![Piece::Text(ok("x")), Piece::Close]).await;
    let (outbound, grant) = (resolving(&["127.0.0.1"]), Arc::new(local()));
    for _ in 0..20 {
        // Now and then the server hangs up at the very moment; the error says so, and another try helps.
        let sent =
            outbound.send(&"a".parse().unwrap(), &grant, get(server.url("/")), REMAINING, Egress::default()).await;
        assert!(matches!(end(&sent.answer), "answer" | "unreachable"), "{:?}", sent.answer);
    }
}

#[tokio::test]
async fn no_more_than_so_many_are_kept() {
    let mut servers = Vec::new();
    for _ in 0..40 {
        servers.push(Server::saying(&ok("x")).await);
    }
    let (outbound, grant) = (resolving(&["127.0.0.1"]), Arc::new(local()));
    for server in &servers {
        get_as(&outbound, "a", &grant, server).await;
    }
    // The first ones were closed, the last ones are still open.
    for server in &mut servers[..8] {
        server.until_hung_up(1).await;
    }
    get_as(&outbound, "a", &grant, &servers[39]).await;
    assert_eq!(servers[39].connections(), [0, 0]);
}

//! Who may do what: tokens, and a proxy that serves the page below a path.

use std::net::SocketAddr;

use gristmill::token::Scope::{Push, Read};
use gristmill_tests::browser::Browser;
use gristmill_tests::test_runner::On;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

use super::act::press;
use super::{TOPICS, loaded, runner, url, visit};
use crate::tokens::token;

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_only_reads_sees_a_page_that_only_reads() {
    let (runner, browser) = (runner().await, Browser::start().await);
    let reads = token(&*runner.store, Some("default"), &[Read]).await;
    browser.open(&url(&runner, "/t/default/dead")).await;
    browser.until("document.querySelector('[type=password]')").await;
    assert_eq!(browser.accessibility().await, Vec::<String>::new());
    browser.fill("[type=password]", "gm_wrong").await;
    browser.click("button.main").await;
    browser.until_text("the token is not known here").await;
    browser.open("about:blank").await;
    // In a link, of which the token is removed at once.
    browser.open(&format!("http://{}/#token={reads}", runner.client().address)).await;
    loaded(&browser).await;
    browser.until("!location.href.includes('gm_') && !document.cookie").await;
    for place in [
        "/t/default/jobs/dead",
        "/t/default/dead",
        "/t/default/find",
        "/t/default/find?q=id:dead",
        "/t/default/bulk",
        "/t/default/jobs/delayed",
        "/t/default/jobs/running",
        "/t/default/topics/stuck",
        "/t/default/topics/stuck/ready",
        "/t/default/jobs/batch",
        "/t/default/schedules",
        "/t/default/bill",
    ] {
        browser.run(&format!("location.hash = '{place}'")).await;
        browser.until(&format!("location.hash === '#{place}'")).await;
        loaded(&browser).await;
        browser.until("!document.querySelector('main .actions button, main .actions a, main .main')").await;
    }
    // What the page does not offer, the server refuses.
    let denied = runner.client().with_token(&reads).post(&format!("{TOPICS}/stuck/pause"), &json!({})).await;
    assert_eq!(denied.status, 403);
    let pushes = token(&*runner.store, Some("default"), &[Push]).await;
    // Another one in a link replaces the token of this tab only if a person wants it: on a page that is open, and when it opens.
    let link = format!("http://{}/#token={pushes}", runner.client().address);
    browser.open(&link).await;
    press(&browser, "Leave it").await;
    browser.until("!document.querySelector('dialog') && !location.href.includes('gm_')").await;
    assert_eq!(browser.run("return sessionStorage.getItem('gristmill-token')").await, reads.as_str());
    browser.open("about:blank").await;
    browser.open(&link).await;
    press(&browser, "Use it").await;
    browser.until_text("Your token does not allow this.").await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_a_tenant_opens_that_tenant_and_one_that_only_pushes_says_so_and_pushes() {
    let (runner, browser) = (crate::tokens::runner(On::Memory).await, Browser::start().await);
    let both = token(&*runner.store, Some("acme"), &[Push, Read]).await;
    let pushes = token(&*runner.store, Some("acme"), &[Push]).await;
    let link = |text: &str| format!("http://{}/#token={text}", runner.client().address);
    browser.open(&link(&both)).await;
    browser.until("location.hash === '#/t/acme'").await;
    loaded(&browser).await;
    browser.until("document.querySelector('main a[href=\"#/t/acme/topics/mail\"]')").await;
    browser.until("document.querySelector('header select').innerText === 'acme'").await;
    // By the form, at the address alone, and after another place.
    browser.run("location.hash = '/t/default/topics'").await;
    browser.until_text("Your token does not allow this.").await;
    browser
        .run("[...document.querySelectorAll('header button')].find(one => one.innerText === 'Log out').click()")
        .await;
    browser.fill("[type=password]", &both).await;
    browser.click("button.main").await;
    browser.until("location.hash === '#/t/acme'").await;
    browser.until("document.querySelector('main a[href=\"#/t/acme/topics/mail\"]')").await;

    browser.open(&link(&pushes)).await;
    press(&browser, "Use it").await;
    browser.until_text("This page needs read; your token allows push.").await;
    browser.until("location.hash === '#/t/acme'").await;
    browser.until("[...document.querySelectorAll('nav a')].map(one => one.innerText).join() === 'Help'").await;
    browser.until("!document.querySelector('#search')").await;
    assert_eq!(browser.accessibility().await, Vec::<String>::new());
    browser.fill("[name=topic]", "mail").await;
    browser.click("main .main").await;
    browser.until("location.hash === '#/t/acme/topics/mail/push'").await;
    browser.click("main .main").await;
    browser.until_text("is pushed.").await;
    browser.until("location.hash === '#/t/acme/topics/mail/push'").await;
    let topic = runner.client().with_token(&both).get("/v1/tenants/acme/topics/mail").await.json();
    assert_eq!(topic["ready"], 1, "{topic}");
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_works_below_a_path_of_a_proxy() {
    let (runner, browser) = (runner().await, Browser::start().await);
    let (address, _proxy) = proxy(runner.client().address).await;
    visit(&browser, &format!("http://{address}/jobs/#/t/default/topics/stuck")).await;
    browser.until_text("there is no stuck.wasm").await;
    browser.click(".tiles a").await;
    browser.until_text("ready-2").await;
    browser.click("a[href$=events]").await;
    browser.until_text("listening").await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

/// Passes on what is below `/jobs`, one request a connection; anything else is not found.
async fn proxy(to: SocketAddr) -> (SocketAddr, AbortOnDropHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(pass_on(stream, to));
        }
    });
    (address, AbortOnDropHandle::new(task))
}

async fn pass_on(mut from: TcpStream, to: SocketAddr) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        if from.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let Some((method, rest)) = head.split_once(" /jobs/") else {
        return from.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
    };
    let rest = rest.replacen("\r\n", "\r\nconnection: close\r\n", 1).replace("Connection: keep-alive\r\n", "");
    let mut server = TcpStream::connect(to).await?;
    server.write_all(format!("{method} /{rest}").as_bytes()).await?;
    copy_bidirectional(&mut from, &mut server).await.map(drop)
}

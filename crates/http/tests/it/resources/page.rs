//! The page that a browser is shown, and what it may do.

use reqwest::{Method, Response};
use serde_json::json;

use crate::world::{As, World, answer};

const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

async fn browse(world: &World, path: &str) -> Response {
    world.request(As::Nobody, Method::GET, path).header("accept", BROWSER).send().await.unwrap()
}

fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers().get(name).unwrap_or_else(|| panic!("{name}")).to_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn k7_the_page_is_shown_to_browsers_under_a_policy_that_lets_nothing_act() {
    let world = World::start().await;
    let page = browse(&world, "/").await;
    assert_eq!(page.status(), 200);
    assert_eq!(header(&page, "content-type"), "text/html; charset=utf-8");
    let policy = header(&page, "content-security-policy");
    for part in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    ] {
        assert!(policy.split("; ").any(|one| one == part), "{part}: {policy}");
    }
    assert!(!policy.contains("unsafe") && !policy.contains('*') && !policy.contains("http"), "{policy}");
    assert_eq!(header(&page, "x-content-type-options"), "nosniff");
    assert_eq!(header(&page, "referrer-policy"), "no-referrer");
    assert_eq!(header(&page, "cross-origin-opener-policy"), "same-origin");
    assert_eq!(header(&page, "x-frame-options"), "DENY");
    assert!(!page.headers().contains_key("set-cookie"));
    // Programs are told what they were told before.
    let health = world.request(As::Nobody, Method::GET, "/").header("accept", "*/*").send().await.unwrap();
    assert!(header(&health, "vary").contains("accept"));
    assert_eq!(answer(health).await.1, json!({"ok": true, "services": {}}));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_asked_for_each_time_and_sent_when_it_is_another() {
    let world = World::start().await;
    let page = browse(&world, "/").await;
    assert_eq!(header(&page, "cache-control"), "no-cache");
    let tag = header(&page, "etag").to_owned();
    let again = |tag: String| {
        let request = world.request(As::Nobody, Method::GET, "/").header("accept", BROWSER);
        request.header("if-none-match", tag).send()
    };
    let same = again(tag).await.unwrap();
    assert_eq!((same.status().as_u16(), same.text().await.unwrap().as_str()), (304, ""));
    assert_eq!(again("W/\"0\"".to_owned()).await.unwrap().status(), 200);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_page_names_is_there_for_good_and_small_for_who_can_read_it_so() {
    let world = World::start().await;
    let page = browse(&world, "/").await.text().await.unwrap();
    let named = page.split('"').filter_map(|part| part.find("assets/").map(|at| &part[at..]));
    let named: Vec<&str> = named.collect();
    assert!(
        named.iter().any(|name| name.ends_with(".js")) && named.iter().any(|name| name.ends_with(".css")),
        "{page}"
    );
    for name in named {
        let path = format!("/{name}");
        let asset = browse(&world, &path).await;
        assert_eq!(asset.status(), 200, "{path}");
        assert_eq!(header(&asset, "cache-control"), "public, max-age=31536000, immutable");
        assert_eq!(header(&asset, "x-content-type-options"), "nosniff");
        let whole = asset.bytes().await.unwrap().len();
        let request = world.request(As::Nobody, Method::GET, &path).header("accept-encoding", "gzip");
        let small = request.send().await.unwrap();
        assert_eq!(header(&small, "content-encoding"), "gzip", "{path}");
        let small = small.bytes().await.unwrap().len();
        // To a file of a line or two it adds its own beginning and end.
        assert!(small < whole || (whole < 1_024 && small < whole + 32), "{path}: {small} of {whole}");
    }
    // A client works `..` out by itself, so the slash behind it is written as no client does.
    for path in [
        "/assets/none.js",
        "/assets/..%2findex.html",
        "/assets/..%2f..%2fCargo.toml",
        "/assets/%2e%2e%2findex.html",
    ] {
        assert_eq!(browse(&world, path).await.status(), 404, "{path}");
    }
    assert_eq!(browse(&world, "/index.html").await.status(), 401);
    world.stop().await;
}

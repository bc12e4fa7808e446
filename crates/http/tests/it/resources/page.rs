//! Tests of the web page: headers, caching and compression.

use reqwest::{Method, Response};
use serde_json::json;

use crate::fixture::{ServerFixture, TestCaller, read_response};

/// The `Accept` header that browsers send when they open a page.
const BROWSER_ACCEPT: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

/// Sends a GET request as a browser does, which accepts HTML.
async fn browse(server: &ServerFixture, path: &str) -> Response {
    server
        .request(TestCaller::Anonymous, Method::GET, path)
        .header("accept", BROWSER_ACCEPT)
        .send()
        .await
        .unwrap()
}

/// Returns a header of the response; panics if it is missing.
fn header_of<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers().get(name).unwrap_or_else(|| panic!("{name}")).to_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn k7_browsers_get_the_page_with_a_policy_that_allows_no_foreign_scripts() {
    let server = ServerFixture::start_default().await;
    let page = browse(&server, "/").await;
    assert_eq!(page.status(), 200);
    assert_eq!(header_of(&page, "content-type"), "text/html; charset=utf-8");
    let policy = header_of(&page, "content-security-policy");
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
        assert!(policy.split("; ").any(|directive| directive == part), "{part}: {policy}");
    }
    assert!(!policy.contains("unsafe") && !policy.contains('*') && !policy.contains("http"), "{policy}");
    assert_eq!(header_of(&page, "x-content-type-options"), "nosniff");
    assert_eq!(header_of(&page, "referrer-policy"), "no-referrer");
    assert_eq!(header_of(&page, "cross-origin-opener-policy"), "same-origin");
    assert_eq!(header_of(&page, "x-frame-options"), "DENY");
    assert!(!page.headers().contains_key("set-cookie"));
    // Programs get JSON at the same path.
    let health =
        server.request(TestCaller::Anonymous, Method::GET, "/").header("accept", "*/*").send().await.unwrap();
    assert!(header_of(&health, "vary").contains("accept"));
    assert_eq!(read_response(health).await.1, json!({"ok": true, "services": {}}));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_revalidated_each_time_and_sent_only_if_it_has_changed() {
    let server = ServerFixture::start_default().await;
    let page = browse(&server, "/").await;
    assert_eq!(header_of(&page, "cache-control"), "no-cache");
    let tag = header_of(&page, "etag").to_owned();
    let revalidate = |tag: String| {
        let request =
            server.request(TestCaller::Anonymous, Method::GET, "/").header("accept", BROWSER_ACCEPT);
        request.header("if-none-match", tag).send()
    };
    let same = revalidate(tag).await.unwrap();
    assert_eq!((same.status().as_u16(), same.text().await.unwrap().as_str()), (304, ""));
    assert_eq!(revalidate("W/\"0\"".to_owned()).await.unwrap().status(), 200);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_assets_of_the_page_are_cached_for_ever_and_compressed_if_accepted() {
    let server = ServerFixture::start_default().await;
    let page = browse(&server, "/").await.text().await.unwrap();
    let asset_paths = page.split('"').filter_map(|part| part.find("assets/").map(|index| &part[index..]));
    let asset_paths: Vec<&str> = asset_paths.collect();
    assert!(
        asset_paths.iter().any(|name| name.ends_with(".js"))
            && asset_paths.iter().any(|name| name.ends_with(".css")),
        "{page}"
    );
    for name in asset_paths {
        let path = format!("/{name}");
        let asset = browse(&server, &path).await;
        assert_eq!(asset.status(), 200, "{path}");
        assert_eq!(header_of(&asset, "cache-control"), "public, max-age=31536000, immutable");
        assert_eq!(header_of(&asset, "x-content-type-options"), "nosniff");
        let whole = asset.bytes().await.unwrap().len();
        let request =
            server.request(TestCaller::Anonymous, Method::GET, &path).header("accept-encoding", "gzip");
        let small = request.send().await.unwrap();
        assert_eq!(header_of(&small, "content-encoding"), "gzip", "{path}");
        let small = small.bytes().await.unwrap().len();
        // Compression of a very small file may add a few bytes.
        assert!(small < whole || (whole < 1_024 && small < whole + 32), "{path}: {small} of {whole}");
    }
    // HTTP clients resolve `..` before sending a request, so the slash after it is percent-encoded.
    for path in [
        "/assets/none.js",
        "/assets/..%2findex.html",
        "/assets/..%2f..%2fCargo.toml",
        "/assets/%2e%2e%2findex.html",
    ] {
        assert_eq!(browse(&server, path).await.status(), 404, "{path}");
    }
    assert_eq!(browse(&server, "/index.html").await.status(), 401);
    server.stop().await;
}

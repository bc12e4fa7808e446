//! The page that a browser is shown: files that `web/` is built into, held in the program and given out as they are, with the
//! headers under which nothing of a conversation can act. They tell nothing of anyone, so that anybody may have them; what
//! the page shows it asks the API for. Nothing is made here.

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use langgraph::Fault;
use rust_embed::{EmbeddedFile, RustEmbed};
use tower_http::compression::CompressionLayer;

use crate::server::Gateway;

/// Where the files are that a page names by the hash of what is in them.
pub(crate) const ASSETS: &str = "/assets/";

/// The document everything begins with.
const INDEX: &str = "index.html";

/// What the page may do: run what comes from here, show pictures it made, talk to this server. Text of a conversation can be
/// none of that, and only the library that draws the page makes elements of text.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; font-src 'self'; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types svelte-trusted-html";

/// Headers of everything that belongs to the page.
const HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (header::X_FRAME_OPTIONS, "DENY"),
];

/// The files.
#[derive(RustEmbed)]
#[folder = "page"]
struct Files;

/// Returns the endpoints of what the page names. It stands at the root, beside what programs are told there.
pub(crate) fn routes() -> Router<Gateway> {
    Router::new().route("/assets/{*path}", get(asset)).layer(smaller())
}

/// Returns what makes an answer smaller for who can read it so.
pub(crate) fn smaller() -> CompressionLayer {
    CompressionLayer::new().no_br().no_deflate().no_zstd()
}

/// Returns whether somebody looks who would rather have a page than JSON.
pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut kinds = accepted.flat_map(|value| value.split(','));
    kinds.any(|kind| kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/html")))
}

/// Answers with the document.
pub(crate) fn index(headers: &HeaderMap) -> Response {
    let Some(file) = Files::get(INDEX) else { return Fault::not_found("Not Found").into_response() };
    // A browser asks each time, so that it never goes on with a page that is not there any more.
    answer(INDEX, file, headers, "no-cache")
}

async fn asset(Path(path): Path<String>, headers: HeaderMap) -> Response {
    match Files::get(&format!("assets/{path}")) {
        // Other content has another name.
        Some(file) => answer(&path, file, &headers, "public, max-age=31536000, immutable"),
        None => Fault::not_found("Not Found").into_response(),
    }
}

fn answer(name: &str, file: EmbeddedFile, headers: &HeaderMap, cache: &'static str) -> Response {
    let tag = tag(&file);
    let is_known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| names(known, &tag));
    let mut response = match is_known {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => ([(header::CONTENT_TYPE, kind(name))], file.data.into_owned()).into_response(),
    };
    let told = response.headers_mut();
    told.extend(HEADERS.map(|(name, value)| (name, HeaderValue::from_static(value))));
    told.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        told.insert(header::ETAG, tag);
    }
    response
}

/// Returns what tells one content from another. It is a weak one: the same file may come smaller.
fn tag(file: &EmbeddedFile) -> String {
    let hash = protocol::hex(&file.metadata.sha256_hash()[..16]);
    format!("W/\"{hash}\"")
}

/// Returns whether a client says that it has what the tag is of.
fn names(known: &HeaderValue, tag: &str) -> bool {
    let strong = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    known.to_str().is_ok_and(|known| known.split(',').any(|known| strong(known) == strong(tag)))
}

/// Returns the media type of a file by its name.
fn kind(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("woff2") => "font/woff2",
        Some("json" | "webmanifest") => "application/json",
        Some("txt") => "text/plain; charset=utf-8",
        Some(_) | None => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepting(accept: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))])
    }

    #[test]
    fn browsers_want_a_page_and_programs_do_not() {
        for browser in ["text/html,application/xhtml+xml,*/*;q=0.8", "application/json, TEXT/HTML;q=0.1"] {
            assert!(is_wanted(&accepting(browser)), "{browser}");
        }
        for program in ["*/*", "application/json", "text/*", "text/htmlx"] {
            assert!(!is_wanted(&accepting(program)), "{program}");
        }
        assert!(!is_wanted(&HeaderMap::new()));
    }

    #[test]
    fn every_file_of_the_page_has_a_type_and_one_of_them_is_where_it_begins() {
        assert!(Files::iter().any(|name| name == INDEX));
        for name in Files::iter().filter(|name| name.starts_with("assets/")) {
            assert_ne!(kind(&name), "application/octet-stream", "{name}");
        }
    }
}

//! The web page: the files built from `web/`, embedded in the program and served with security headers under which no
//! text of a conversation can run as a script. The files contain no user data, so they need no authentication; the page
//! loads its data from the API.

use std::io::{self, Read};

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use flate2::read::GzDecoder;
use include_dir::{Dir, File, include_dir};
use langgraph::ApiError;
use tower_http::compression::CompressionLayer;

use crate::server::AppState;

/// The path of the files whose names contain the hash of their content.
pub(crate) const ASSETS_PATH: &str = "/assets/";

/// The document that loads the page.
const INDEX_FILE: &str = "index.html";

/// The content security policy of the page: it may run its own files, show images that it created itself, and connect
/// to this server. Only Svelte may create elements from HTML text (trusted types).
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; font-src 'self'; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types svelte-trusted-html";

/// The headers of every file of the page.
const PAGE_HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (header::X_FRAME_OPTIONS, "DENY"),
];

/// The embedded files, compressed with gzip by the build script.
static PAGE_FILES: Dir<'_> = include_dir!("$OUT_DIR/page");

/// Returns the routes of the page's files. The document itself is served at `/` for browsers ([`index_response`]).
pub(crate) fn routes() -> Router<AppState> {
    Router::new().route("/assets/{*path}", get(serve_asset)).layer(compression_layer())
}

/// Returns the layer that compresses responses with gzip for clients that accept it.
pub(crate) fn compression_layer() -> CompressionLayer {
    CompressionLayer::new().no_br().no_deflate().no_zstd()
}

/// Returns whether the client accepts HTML, as browsers do, rather than only JSON.
pub(crate) fn prefers_html(headers: &HeaderMap) -> bool {
    let accept_values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut media_types = accept_values.flat_map(|value| value.split(','));
    media_types.any(|media_type| {
        media_type
            .split(';')
            .next()
            .is_some_and(|media_type| media_type.trim().eq_ignore_ascii_case("text/html"))
    })
}

/// Responds with the document.
pub(crate) fn index_response(headers: &HeaderMap) -> Response {
    let Some(file) = PAGE_FILES.get_file(INDEX_FILE) else {
        return ApiError::not_found("Not Found").into_response();
    };
    // Browsers revalidate it each time, so that they never keep using files of an older version.
    file_response(INDEX_FILE, file, headers, "no-cache")
}

/// Responds with one of the page's files.
async fn serve_asset(Path(path): Path<String>, headers: HeaderMap) -> Response {
    match PAGE_FILES.get_file(format!("assets/{path}")) {
        // The name contains the hash of the content, so the file never changes.
        Some(file) => file_response(&path, file, &headers, "public, max-age=31536000, immutable"),
        None => ApiError::not_found("Not Found").into_response(),
    }
}

/// Responds with a file, or with 304 if the client has it already.
fn file_response(name: &str, file: &File<'_>, headers: &HeaderMap, cache: &'static str) -> Response {
    let tag = etag(file);
    let is_cached =
        headers.get(header::IF_NONE_MATCH).is_some_and(|if_none_match| matches_etag(if_none_match, &tag));
    let mut response = match is_cached {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => match decompress(file.contents()) {
            Ok(data) => ([(header::CONTENT_TYPE, media_type(name))], data).into_response(),
            Err(error) => return ApiError::internal(error).into_response(),
        },
    };
    let headers_mut = response.headers_mut();
    headers_mut.extend(PAGE_HEADERS.map(|(name, value)| (name, HeaderValue::from_static(value))));
    headers_mut.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers_mut.insert(header::ETAG, tag);
    }
    response
}

/// Returns the content of a compressed file.
fn decompress(data: &[u8]) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    GzDecoder::new(data).read_to_end(&mut content)?;
    Ok(content)
}

/// Returns the entity tag of a file. It is weak, because compressed responses use the same tag.
fn etag(file: &File<'_>) -> String {
    let hash = protocol::sha256_hex(file.contents());
    format!("W/\"{}\"", &hash[..32])
}

/// Returns whether an `If-None-Match` header contains the tag. Weak comparison (RFC 9110, section 8.8.3.2).
fn matches_etag(if_none_match: &HeaderValue, tag: &str) -> bool {
    let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let tags = if_none_match.to_str();
    tags.is_ok_and(|tags| tags.split(',').any(|cached_tag| opaque(cached_tag) == opaque(tag)))
}

/// Returns the media type of a file, chosen by its extension.
fn media_type(name: &str) -> &'static str {
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
    fn browsers_get_the_page_and_programs_get_json() {
        for browser in ["text/html,application/xhtml+xml,*/*;q=0.8", "application/json, TEXT/HTML;q=0.1"] {
            assert!(prefers_html(&accepting(browser)), "{browser}");
        }
        for program in ["*/*", "application/json", "text/*", "text/htmlx"] {
            assert!(!prefers_html(&accepting(program)), "{program}");
        }
        assert!(!prefers_html(&HeaderMap::new()));
    }

    #[test]
    fn every_file_of_the_page_has_a_media_type_and_the_document_exists() {
        let document = PAGE_FILES.get_file(INDEX_FILE).unwrap();
        assert!(decompress(document.contents()).unwrap().starts_with(b"<!doctype html>"));
        let assets: Vec<&File<'_>> = PAGE_FILES.get_dir("assets").unwrap().files().collect();
        assert!(!assets.is_empty());
        for name in assets.iter().map(|file| file.path().to_str().unwrap()) {
            assert_ne!(media_type(name), "application/octet-stream", "{name}");
        }
    }
}

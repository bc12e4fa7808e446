//! The OpenAPI document, which is generated from the handlers, and a page that shows it. The page is a single file that
//! loads nothing from other servers, so that it works without internet access.

use std::sync::Arc;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::Html;
use axum::routing::get;
use bytes::Bytes;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, ContentBuilder, InfoBuilder, OpenApi, Ref, RefOr, ResponseBuilder, SecurityRequirement,
};

use crate::server::AppState;

/// The page that shows the document.
const DOCS_PAGE_HTML: &str = include_str!("docs/page.html");

/// Completes the document with its title, the security schemes and the common responses, and serializes it. It is
/// called once, at the start of the server.
pub(crate) fn render_document(mut api: OpenApi) -> Bytes {
    api.info = InfoBuilder::new()
        .title("Segue")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some("The Agent Server API for existing clients, and Segue's own endpoints under /api."))
        .build();
    let components = api.components.get_or_insert_with(|| ComponentsBuilder::new().build());
    let key = SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::new("x-api-key")));
    components.add_security_scheme("key", key);
    components.add_security_scheme("bearer", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    let none: [String; 0] = [];
    api.security =
        Some(vec![SecurityRequirement::new("key", none.clone()), SecurityRequirement::new("bearer", none)]);
    for item in api.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.patch, &mut item.delete];
        operations.into_iter().filter_map(Option::as_mut).for_each(complete_operation);
    }
    let json = serde_json::to_vec(&api);
    json.expect("a document with text keys is always JSON").into()
}

/// Adds the responses that any endpoint may return because of authentication, limits or the size of the body. Existing
/// responses are not replaced; a response without a description gets the reason phrase of its status.
fn complete_operation(operation: &mut Operation) {
    let mut error_responses =
        vec![("403", "The host name or the origin is not allowed."), ("422", "A field is invalid.")];
    if operation.security.is_none() {
        error_responses.push(("401", "The request is not authenticated."));
        error_responses.push(("429", "Too many requests; `Retry-After` says when to try again."));
    }
    if operation.request_body.is_some() {
        error_responses.push(("400", "The body is malformed."));
        error_responses.push(("413", "The body is too large."));
    }
    for (status, description) in error_responses {
        let responses = &mut operation.responses.responses;
        responses.entry(status.to_owned()).or_insert_with(|| error_response(description).into());
    }
    let lacks_description = |response: &RefOr<utoipa::openapi::Response>| match response {
        RefOr::T(response) => response.description.is_empty(),
        RefOr::Ref(_) => false,
    };
    for (status, response) in &mut operation.responses.responses {
        if lacks_description(response)
            && let RefOr::T(response) = response
        {
            response.description = status_reason(status).to_owned();
        }
    }
}

/// Returns an error response with that description.
fn error_response(description: &str) -> utoipa::openapi::Response {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Error"))).build();
    ResponseBuilder::new().description(description).content("application/json", content).build()
}

/// Returns the reason phrase of a status code, such as `Not Found`; empty for an unknown status.
fn status_reason(status: &str) -> &'static str {
    let code = status.parse().ok().and_then(|code| StatusCode::from_u16(code).ok());
    code.and_then(|code| code.canonical_reason()).unwrap_or_default()
}

/// Returns the routes of the document and of the page that shows it.
pub(crate) fn docs_routes(document: Bytes) -> Router<AppState> {
    let document = Arc::new(document);
    let json = move || {
        let document = Bytes::clone(&document);
        async move { ([(header::CONTENT_TYPE, "application/json")], document) }
    };
    Router::new().route("/openapi.json", get(json)).route("/docs", get(docs_page))
}

/// Responds with the page that shows the document.
async fn docs_page() -> ([(header::HeaderName, &'static str); 2], Html<&'static str>) {
    let policy =
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'";
    (
        [(header::CONTENT_SECURITY_POLICY, policy), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")],
        Html(DOCS_PAGE_HTML),
    )
}

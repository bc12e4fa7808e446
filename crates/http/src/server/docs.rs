//! The OpenAPI document, made from the handlers, and a page that shows it. The page is ours and holds everything it needs:
//! it loads nothing from elsewhere.

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

use crate::server::Gateway;

/// The page.
const PAGE: &str = include_str!("docs/page.html");

/// Completes what the handlers say of themselves, and writes it.
pub(crate) fn describe(mut api: OpenApi) -> Bytes {
    api.info = InfoBuilder::new()
        .title("Segue")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "The Agent Server API for clients that exist, and Segue's own endpoints under /api.",
        ))
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
        operations.into_iter().filter_map(Option::as_mut).for_each(complete);
    }
    let json = serde_json::to_vec(&api);
    json.expect("a document with text keys is always JSON").into()
}

/// Adds what any request may be answered, by the door or because its body is too large.
fn complete(operation: &mut Operation) {
    let mut refusals =
        vec![("403", "By that name, or from that page, nobody is let in."), ("422", "A field is wrong.")];
    if operation.security.is_none() {
        refusals.push(("401", "Nobody said who they are."));
        refusals.push(("429", "Too many requests; `Retry-After` says when to come again."));
    }
    if operation.request_body.is_some() {
        refusals.push(("400", "The body makes no sense."));
        refusals.push(("413", "The body is too large."));
    }
    for (status, description) in refusals {
        let answers = &mut operation.responses.responses;
        answers.entry(status.to_owned()).or_insert_with(|| refusal(description).into());
    }
    let empty = |answer: &RefOr<utoipa::openapi::Response>| match answer {
        RefOr::T(answer) => answer.description.is_empty(),
        RefOr::Ref(_) => false,
    };
    for (status, answer) in &mut operation.responses.responses {
        if empty(answer)
            && let RefOr::T(answer) = answer
        {
            answer.description = reason(status).to_owned();
        }
    }
}

fn refusal(description: &str) -> utoipa::openapi::Response {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Error"))).build();
    ResponseBuilder::new().description(description).content("application/json", content).build()
}

/// Returns what a status means, where a handler does not say more.
fn reason(status: &str) -> &'static str {
    let code = status.parse().ok().and_then(|code| StatusCode::from_u16(code).ok());
    code.and_then(|code| code.canonical_reason()).unwrap_or_default()
}

/// Returns the pages that show the document.
pub(crate) fn pages(document: Bytes) -> Router<Gateway> {
    let document = Arc::new(document);
    let json = move || {
        let document = Bytes::clone(&document);
        async move { ([(header::CONTENT_TYPE, "application/json")], document) }
    };
    Router::new().route("/openapi.json", get(json)).route("/docs", get(page))
}

async fn page() -> ([(header::HeaderName, &'static str); 2], Html<&'static str>) {
    let policy =
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'";
    ([(header::CONTENT_SECURITY_POLICY, policy), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")], Html(PAGE))
}

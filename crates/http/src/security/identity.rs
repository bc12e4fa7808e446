//! Authentication: the install token identifies the local operator, a key identifies its user. The scope of a request
//! follows only from that; nothing else in a request can change it.

use axum::http::{HeaderMap, HeaderName, header};
use langgraph::ApiError;
use protocol::OwnerScope;

use crate::AuthMode;
use crate::server::AppState;

/// The header in which SDKs send a key.
pub(crate) const API_KEY_HEADER: HeaderName = HeaderName::from_static("x-api-key");

/// Maximum length of a key, in bytes. Longer values are ignored without hashing them.
const KEY_BYTES_MAX: usize = 256;

/// The authenticated identity of a request.
pub(crate) struct Identity {
    /// The scope of the data that the request may see.
    pub scope: OwnerScope,
    /// The public part of the key; `None` for the local operator.
    pub key_id: Option<String>,
}

impl Identity {
    /// The local operator, who started the server.
    const LOCAL_OPERATOR: Self = Self { scope: OwnerScope::Owner(None), key_id: None };
}

/// Authenticates a request by its headers. Costs at most two reads of the journal.
///
/// # Errors
/// 401 if the request has no valid key, and the error of the journal if a key cannot be looked up.
pub(crate) async fn resolve_identity(state: &AppState, headers: &HeaderMap) -> Result<Identity, ApiError> {
    let token = match &state.settings.auth {
        AuthMode::Disabled => return Ok(Identity::LOCAL_OPERATOR),
        AuthMode::Token(token) => Some(token),
        AuthMode::Keys => None,
    };
    let mut has_key = false;
    // Keys of both headers are tried, because a proxy may have set one of the headers for its own authentication.
    for key in presented_keys(headers) {
        has_key = true;
        if token.is_some_and(|token| token.matches(key)) {
            return Ok(Identity::LOCAL_OPERATOR);
        }
        if let Some(key) =
            state.server.scheduler.agent(&OwnerScope::Owner(None)).admin().authenticate_key(key).await?
        {
            return Ok(Identity { scope: OwnerScope::Owner(Some(key.user_id)), key_id: Some(key.key_id) });
        }
    }
    Err(match has_key {
        true => ApiError::unauthorized("Invalid API key"),
        false => ApiError::unauthorized("Not authenticated: send a key as `x-api-key` or as a bearer token"),
    })
}

/// Returns the keys that a request presents, at most two: those of `x-api-key` first, then bearer tokens.
fn presented_keys(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let api_keys = headers.get_all(API_KEY_HEADER).iter().filter_map(|value| value.to_str().ok());
    let bearer_tokens =
        headers.get_all(header::AUTHORIZATION).iter().filter_map(|value| bearer_token(value.to_str().ok()?));
    api_keys
        .chain(bearer_tokens)
        .map(str::trim)
        .filter(|key| !key.is_empty() && key.len() <= KEY_BYTES_MAX)
        .take(2)
}

/// Returns the token of an `Authorization` header with the scheme `Bearer`; `None` for any other scheme.
fn bearer_token(value: &str) -> Option<&str> {
    let (scheme, key) = value.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(key)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn check(sent: &[(&'static str, &str)], expected: &[&str]) {
        let mut headers = HeaderMap::new();
        for (name, value) in sent {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        assert_eq!(presented_keys(&headers).collect::<Vec<_>>(), expected, "{sent:?}");
    }

    #[test]
    fn keys_are_read_from_either_header() {
        check(&[], &[]);
        check(&[("x-api-key", "k1")], &["k1"]);
        check(&[("authorization", "Bearer k2")], &["k2"]);
        check(&[("authorization", "bearer  k2 ")], &["k2"]);
        check(&[("authorization", "Basic dTpw")], &[]);
        check(&[("authorization", "Bearer k2"), ("x-api-key", "k1")], &["k1", "k2"]);
        check(&[("x-api-key", "")], &[]);
        check(&[("x-api-key", &"k".repeat(257))], &[]);
    }
}

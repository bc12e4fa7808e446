//! Who sends a request: the install token makes them the person at the machine, a key makes them its user. What they may
//! see follows from that; nothing in a request can say it.

use axum::http::{HeaderMap, HeaderName, header};
use langgraph::Fault;
use protocol::Scope;

use crate::Auth;
use crate::server::Gateway;

/// The header SDKs send a key in.
pub(crate) const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Bytes of a key. Longer ones are none, and are not hashed.
const KEY_BYTES_MAX: usize = 256;

/// Who sends a request.
pub(crate) struct Identity {
    /// Whose data they may see.
    pub scope: Scope,
    /// The public part of the key they sent; the person at the machine needs none.
    pub key_id: Option<String>,
}

impl Identity {
    const AT_THE_MACHINE: Self = Self { scope: Scope::Owner(None), key_id: None };
}

/// Finds out who sends the request.
pub(crate) async fn of(gateway: &Gateway, headers: &HeaderMap) -> Result<Identity, Fault> {
    let token = match &gateway.settings.auth {
        Auth::Open => return Ok(Identity::AT_THE_MACHINE),
        Auth::Token(token) => Some(token),
        Auth::Keys => None,
    };
    let mut given = false;
    // Both headers count: a proxy in between may set one of them for itself.
    for key in keys(headers) {
        given = true;
        if token.is_some_and(|token| token.is(key)) {
            return Ok(Identity::AT_THE_MACHINE);
        }
        if let Some(key) = gateway.server.dispatch.agent(&Scope::Owner(None)).admin().key_of(key).await? {
            return Ok(Identity { scope: Scope::Owner(Some(key.user_id)), key_id: Some(key.key_id) });
        }
    }
    Err(match given {
        true => Fault::unauthorized("Invalid API key"),
        false => Fault::unauthorized("Not authenticated: send a key as `x-api-key` or as a bearer token"),
    })
}

fn keys(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let own = headers.get_all(API_KEY).iter().filter_map(|value| value.to_str().ok());
    let bearer =
        headers.get_all(header::AUTHORIZATION).iter().filter_map(|value| bearer(value.to_str().ok()?));
    own.chain(bearer).map(str::trim).filter(|key| !key.is_empty() && key.len() <= KEY_BYTES_MAX).take(2)
}

fn bearer(value: &str) -> Option<&str> {
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
        assert_eq!(keys(&headers).collect::<Vec<_>>(), expected, "{sent:?}");
    }

    #[test]
    fn keys_come_in_either_header() {
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

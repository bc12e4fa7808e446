//! By which name a request calls the server, and from whose page it comes. A page of another site can send requests here
//! from a visitor's browser: its origin tells. It can also let a name of its own point at this machine, so that its pages
//! are of the same origin: the name then tells. Who sends a request is looked at elsewhere.

use axum::http::{HeaderMap, HeaderValue, Uri, header};
use langgraph::Fault;

use crate::{Origins, Settings};

/// Checks name and origin.
pub(crate) fn check(settings: &Settings, headers: &HeaderMap) -> Result<(), Fault> {
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !is_host_allowed(host, &settings.allowed_hosts) {
        let refused = Fault::forbidden("this server is not called by that name");
        return Err(refused.with_hint("`segue serve --allow-host NAME` lets requests in that call it so"));
    }
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let (Some(origin), None) = (origins.next(), origins.next()) else {
        return match headers.contains_key(header::ORIGIN) {
            true => Err(foreign()),
            // No page: a program, or a person who follows a link.
            false => Ok(()),
        };
    };
    match allows_origin(settings, origin) || is_same_origin(origin, host) {
        true => Ok(()),
        false => Err(foreign()),
    }
}

fn foreign() -> Fault {
    let refused = Fault::forbidden("pages of that origin are not let in");
    refused.with_hint("`segue serve --allow-origin ORIGIN` lets them in")
}

/// Returns whether pages of that origin are let in by the settings.
pub(crate) fn allows_origin(settings: &Settings, origin: &HeaderValue) -> bool {
    if settings.allowed_origins == Origins::Any {
        return true;
    }
    let Some(origin) = origin.to_str().ok().and_then(normal) else { return false };
    match &settings.allowed_origins {
        Origins::Any => true,
        Origins::Loopback => origin.is_loopback(),
        Origins::These(allowed) => {
            origin.is_loopback() || allowed.iter().any(|one| normal(one).is_some_and(|one| one == origin))
        }
    }
}

/// Returns whether the page was served under the name the request calls the server by. Behind a proxy that ends TLS the
/// scheme differs; the name is what counts.
fn is_same_origin(origin: &HeaderValue, host: &str) -> bool {
    let Some(origin) = origin.to_str().ok().and_then(normal) else { return false };
    normal(&format!("{}://{host}", origin.scheme)).is_some_and(|own| own == origin)
}

/// An origin with nothing left out.
#[derive(Debug, PartialEq, Eq)]
struct Origin {
    scheme: &'static str,
    host: String,
    port: u16,
}

impl Origin {
    fn is_loopback(&self) -> bool {
        let bare = self.host.trim_start_matches('[').trim_end_matches(']');
        is_localhost(bare) || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

/// Returns the origin in its one form, or `None` for what is none, such as `null`.
fn normal(text: &str) -> Option<Origin> {
    let uri: Uri = text.parse().ok()?;
    let (scheme, default) = match uri.scheme_str()? {
        "http" => ("http", 80),
        "https" => ("https", 443),
        _ => return None,
    };
    let authority = uri.authority()?;
    let is_bare = uri.path_and_query().is_none_or(|rest| rest.as_str() == "/") && !text.ends_with('/');
    let (host, port) = split(authority.as_str())?;
    is_bare.then(|| Origin { scheme, host, port: port.unwrap_or(default) })
}

/// Returns the name, in lower case, and the port of `name[:port]`.
fn split(authority: &str) -> Option<(String, Option<u16>)> {
    let name_end = match authority.strip_prefix('[') {
        Some(rest) => rest.find(']')? + 2,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (name, rest) = authority.split_at(name_end);
    let port = match rest.strip_prefix(':') {
        Some(port) => Some(port.parse().ok()?),
        None if rest.is_empty() => None,
        None => return None,
    };
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte);
    let is_name = !name.is_empty() && name.bytes().all(is_legal);
    is_name.then(|| (name.trim_end_matches('.').to_ascii_lowercase(), port))
}

/// Returns whether requests may call the server so. An address cannot be made to point elsewhere; a name can.
fn is_host_allowed(host: &str, allowed: &[String]) -> bool {
    let Some((name, port)) = split(host) else { return false };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    if is_localhost(bare) || bare.parse::<std::net::IpAddr>().is_ok() {
        return true;
    }
    allowed.iter().any(|one| {
        one == "*"
            || split(one).is_some_and(|(known, at)| known == name && at.is_none_or(|at| Some(at) == port))
    })
}

fn is_localhost(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Auth;

    fn check_host(host: &str, allowed: &[&str], expected: bool) {
        let allowed: Vec<String> = allowed.iter().map(|one| (*one).to_owned()).collect();
        assert_eq!(is_host_allowed(host, &allowed), expected, "{host} of {allowed:?}");
    }

    #[test]
    fn k2_a_foreign_name_that_points_here_is_refused() {
        check_host("127.0.0.1:2024", &[], true);
        check_host("localhost:2024", &[], true);
        check_host("LOCALHOST.:2024", &[], true);
        check_host("ui.localhost", &[], true);
        check_host("[::1]:2024", &[], true);
        check_host("192.168.0.7:2024", &[], true);
        check_host("evil.example", &[], false);
        check_host("localhost.evil.example", &[], false);
        check_host("127.0.0.1.evil.example", &[], false);
        check_host("segue.example", &["segue.example"], true);
        check_host("segue.example:8443", &["segue.example"], true);
        check_host("segue.example:8443", &["segue.example:443"], false);
        check_host("segue.example", &["*"], true);
        for malformed in ["", " ", "a b", "user@127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "[::1", "a/b"] {
            check_host(malformed, &["*"], false);
        }
    }

    fn check_origin(origin: &str, origins: &Origins, expected: bool) {
        let settings = Settings { allowed_origins: origins.clone(), ..Settings::new(Auth::Keys) };
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static("localhost:2024"));
        headers.insert(header::ORIGIN, HeaderValue::from_str(origin).unwrap());
        assert_eq!(check(&settings, &headers).is_ok(), expected, "{origin} of {origins:?}");
    }

    #[test]
    fn k3_origins_are_compared_in_one_form_and_malformed_ones_refused() {
        let these =
            Origins::These(vec!["https://chat.example".to_owned(), "http://ui.example:80".to_owned()]);
        check_origin("https://chat.example", &these, true);
        check_origin("https://CHAT.example:443", &these, true);
        check_origin("http://ui.example", &these, true);
        check_origin("http://chat.example", &these, false);
        check_origin("https://chat.example:8443", &these, false);
        check_origin("https://chat.example.evil.example", &these, false);
        check_origin("http://localhost:3000", &these, true);
        check_origin("http://localhost:3000", &Origins::Loopback, true);
        check_origin("http://[::1]:3000", &Origins::Loopback, true);
        check_origin("http://localhost.evil.example", &Origins::Loopback, false);
        check_origin("https://evil.example", &Origins::Loopback, false);
        for malformed in
            ["null", "", "file://", "https://", "https://chat.example/x", "https://u@chat.example", "x"]
        {
            check_origin(malformed, &these, false);
        }
        check_origin("https://evil.example", &Origins::Any, true);
    }
}

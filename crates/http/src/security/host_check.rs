//! Host and Origin checks, which protect against pages of other sites. Such a page can send requests to this server from
//! a visitor's browser; the `Origin` header then contains the other site. It can also let its own name resolve to this
//! machine (DNS rebinding), so that the origins match; the `Host` header then contains the foreign name. Authentication
//! is separate.

use axum::http::{HeaderMap, HeaderValue, Uri, header};
use langgraph::ApiError;

use crate::{AllowedOrigins, ServerSettings};

/// Checks the target of a request, and its `Host` and `Origin` headers.
///
/// # Errors
/// 400 if the request names several hosts; 403 if the host name is not allowed, if there is more than one origin, or if
/// the origin is neither allowed nor the origin of the request itself.
pub(crate) fn check_headers(
    settings: &ServerSettings,
    target: &Uri,
    headers: &HeaderMap,
) -> Result<(), ApiError> {
    check_single_host(target, headers)?;
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !is_host_allowed(host, &settings.allowed_hosts) {
        let refused = ApiError::forbidden("this host name is not allowed");
        return Err(refused.with_hint("`segue serve --allow-host NAME` allows a host name"));
    }
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let (Some(origin), None) = (origins.next(), origins.next()) else {
        return match headers.contains_key(header::ORIGIN) {
            true => Err(forbidden_origin()),
            // Without an `Origin` header, the client is a program, or a browser that follows a link.
            false => Ok(()),
        };
    };
    match allows_origin(settings, origin) || is_same_origin(origin, host) {
        true => Ok(()),
        false => Err(forbidden_origin()),
    }
}

/// Checks that a request names one host. A proxy in front of the server may check another one of them than the server does.
///
/// # Errors
/// 400 if there are several `Host` headers, or if the request's target is a URL of another host.
fn check_single_host(target: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok());
    if hosts.next().is_some() {
        return Err(ApiError::bad_request("the request has more than one `Host` header"));
    }
    let is_same = |authority: &str| split_host_port(authority) == host.and_then(split_host_port);
    match target.authority() {
        Some(authority) if !is_same(authority.as_str()) => {
            Err(ApiError::bad_request("the request's URL and its `Host` header name different hosts"))
        }
        Some(_) | None => Ok(()),
    }
}

/// Returns the error for an origin that is not allowed.
fn forbidden_origin() -> ApiError {
    let refused = ApiError::forbidden("pages of this origin are not allowed");
    refused.with_hint("`segue serve --allow-origin ORIGIN` allows an origin")
}

/// Returns whether the settings allow requests from pages of that origin. Loopback origins are allowed by every
/// setting.
pub(crate) fn allows_origin(settings: &ServerSettings, origin: &HeaderValue) -> bool {
    if settings.allowed_origins == AllowedOrigins::Any {
        return true;
    }
    let Some(origin) = origin.to_str().ok().and_then(parse_origin) else { return false };
    match &settings.allowed_origins {
        AllowedOrigins::Any => true,
        AllowedOrigins::Loopback => origin.is_loopback(),
        AllowedOrigins::Listed(allowed) => {
            origin.is_loopback()
                || allowed.iter().any(|entry| parse_origin(entry).is_some_and(|entry| entry == origin))
        }
    }
}

/// Returns whether the origin has the same name and port as the `Host` header. The scheme is not compared, because it
/// differs behind a proxy that terminates TLS.
fn is_same_origin(origin: &HeaderValue, host: &str) -> bool {
    let Some(origin) = origin.to_str().ok().and_then(parse_origin) else { return false };
    parse_origin(&format!("{}://{host}", origin.scheme)).is_some_and(|host_origin| host_origin == origin)
}

/// A normalized origin: lower case, with its port.
#[derive(Debug, PartialEq, Eq)]
struct WebOrigin {
    /// `http` or `https`.
    scheme: &'static str,
    /// The name or address; IPv6 addresses in brackets.
    host: String,
    /// The port, or the default port of the scheme.
    port: u16,
}

impl WebOrigin {
    /// Returns whether the host is `localhost`, a subdomain of it, or a loopback address.
    fn is_loopback(&self) -> bool {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        is_localhost(host) || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

/// Parses and normalizes an origin. Returns `None` for anything else, such as `null`.
fn parse_origin(text: &str) -> Option<WebOrigin> {
    let uri: Uri = text.parse().ok()?;
    let (scheme, default) = match uri.scheme_str()? {
        "http" => ("http", 80),
        "https" => ("https", 443),
        _ => return None,
    };
    let authority = uri.authority()?;
    let has_no_path = uri.path_and_query().is_none_or(|path| path.as_str() == "/") && !text.ends_with('/');
    let (host, port) = split_host_port(authority.as_str())?;
    has_no_path.then(|| WebOrigin { scheme, host, port: port.unwrap_or(default) })
}

/// Splits `name[:port]` and returns the name in lower case. Returns `None` for a malformed text.
fn split_host_port(authority: &str) -> Option<(String, Option<u16>)> {
    let name_end = match authority.strip_prefix('[') {
        Some(bracketed) => bracketed.find(']')? + 2,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (name, suffix) = authority.split_at(name_end);
    let port = match suffix.strip_prefix(':') {
        Some(port) => Some(port.parse().ok()?),
        None if suffix.is_empty() => None,
        None => return None,
    };
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte);
    let is_name = !name.is_empty() && name.bytes().all(is_legal);
    is_name.then(|| (name.trim_end_matches('.').to_ascii_lowercase(), port))
}

/// Returns whether the `Host` header is allowed. IP addresses are always allowed, because DNS rebinding needs a name.
/// An entry of `allowed` without a port allows every port, and `*` allows every name.
fn is_host_allowed(host: &str, allowed: &[String]) -> bool {
    let Some((name, port)) = split_host_port(host) else { return false };
    let host = name.trim_start_matches('[').trim_end_matches(']');
    if is_localhost(host) || host.parse::<std::net::IpAddr>().is_ok() {
        return true;
    }
    allowed.iter().any(|entry| {
        entry == "*"
            || split_host_port(entry).is_some_and(|(allowed_name, allowed_port)| {
                allowed_name == name && allowed_port.is_none_or(|allowed_port| Some(allowed_port) == port)
            })
    })
}

/// Returns whether the name is `localhost` or a subdomain of it.
fn is_localhost(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AuthMode;

    fn check_host(host: &str, allowed: &[&str], expected: bool) {
        let allowed: Vec<String> = allowed.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(is_host_allowed(host, &allowed), expected, "{host} of {allowed:?}");
    }

    #[test]
    fn k2_a_foreign_name_that_resolves_to_this_machine_is_refused() {
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

    #[test]
    fn k2_a_request_that_names_several_hosts_is_refused() {
        let settings = ServerSettings::new(AuthMode::Keys);
        let check = |target: &str, hosts: &[&'static str], expected: Option<u16>| {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(header::HOST, HeaderValue::from_static(host));
            }
            let refusal = check_headers(&settings, &target.parse().unwrap(), &headers).err();
            assert_eq!(refusal.map(|refusal| refusal.status().as_u16()), expected, "{target} {hosts:?}");
        };
        check("/ok", &["localhost:2024"], None);
        check("http://LOCALHOST:2024/ok", &["localhost:2024"], None);
        check("/ok", &["localhost:2024", "evil.example"], Some(400));
        check("/ok", &["localhost:2024", "localhost:2024"], Some(400));
        check("http://evil.example/ok", &["localhost:2024"], Some(400));
        check("http://evil.example/ok", &["evil.example"], Some(403));
        check("http://localhost:2024/ok", &[], Some(400));
    }

    fn check_origin(origin: &str, origins: &AllowedOrigins, expected: bool) {
        let settings =
            ServerSettings { allowed_origins: origins.clone(), ..ServerSettings::new(AuthMode::Keys) };
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static("localhost:2024"));
        headers.insert(header::ORIGIN, HeaderValue::from_str(origin).unwrap());
        assert_eq!(
            check_headers(&settings, &Uri::from_static("/"), &headers).is_ok(),
            expected,
            "{origin} of {origins:?}"
        );
    }

    #[test]
    fn k3_origins_are_normalized_for_comparison_and_malformed_ones_are_refused() {
        let allowed_origins = AllowedOrigins::Listed(vec![
            "https://chat.example".to_owned(),
            "http://ui.example:80".to_owned(),
        ]);
        check_origin("https://chat.example", &allowed_origins, true);
        check_origin("https://CHAT.example:443", &allowed_origins, true);
        check_origin("http://ui.example", &allowed_origins, true);
        check_origin("http://chat.example", &allowed_origins, false);
        check_origin("https://chat.example:8443", &allowed_origins, false);
        check_origin("https://chat.example.evil.example", &allowed_origins, false);
        check_origin("http://localhost:3000", &allowed_origins, true);
        check_origin("http://localhost:3000", &AllowedOrigins::Loopback, true);
        check_origin("http://[::1]:3000", &AllowedOrigins::Loopback, true);
        check_origin("http://localhost.evil.example", &AllowedOrigins::Loopback, false);
        check_origin("https://evil.example", &AllowedOrigins::Loopback, false);
        for malformed in
            ["null", "", "file://", "https://", "https://chat.example/x", "https://u@chat.example", "x"]
        {
            check_origin(malformed, &allowed_origins, false);
        }
        check_origin("https://evil.example", &AllowedOrigins::Any, true);
    }
}

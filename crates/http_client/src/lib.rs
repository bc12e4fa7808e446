//! HTTP clients with the settings that all requests of Segue share. Retries, headers and the meaning of responses belong
//! to the caller.

use std::net::IpAddr;

use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Url};

/// Returns a builder for a client that sends requests to `url`.
///
/// The client follows no redirect, because that could send a key or a payload to another host. It loads certificates for
/// https only, because a machine may have none.
pub fn client_builder(url: &Url) -> ClientBuilder {
    install_crypto_provider();
    let builder =
        Client::builder().user_agent(concat!("segue/", env!("CARGO_PKG_VERSION"))).redirect(Policy::none());
    if url.scheme() == "http" { builder.tls_certs_only([]) } else { builder }
}

/// Selects the cryptography of TLS for this process. Without this selection, building a client panics, also one that a
/// library builds. Has no effect after the first call.
pub fn install_crypto_provider() {
    // Fails if a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Returns whether the host of a URL is this machine.
pub fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_built_for_both_schemes_and_any_number_of_times() {
        for url in ["http://127.0.0.1:1", "https://a.example", "http://127.0.0.1:1"] {
            assert!(client_builder(&url.parse().unwrap()).build().is_ok(), "{url}");
        }
    }

    #[test]
    fn only_hosts_of_this_machine_are_loopback() {
        let check = |url: &str, expected: bool| {
            assert_eq!(is_loopback(&url.parse().unwrap()), expected, "{url}");
        };
        check("http://localhost:2024", true);
        check("http://127.8.0.1/", true);
        check("http://[::1]:3000", true);
        check("http://10.0.0.1/", false);
        check("http://localhost.example/", false);
    }
}

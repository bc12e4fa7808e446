//! Where requests to one model go and what they carry. Nothing is sent from here.

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use secrecy::{ExposeSecret, SecretString};

use crate::Result;
use crate::error::Error;
use crate::name::ModelName;
use crate::settings::Settings;
use crate::wire::{self, Endpoint};

/// Bytes from which on the value of a header may be a secret.
const SECRET_BYTES_MIN: usize = 8;

/// Where requests to one model go and what they carry.
pub(super) struct Route {
    pub(super) name: ModelName,
    pub(super) url: Url,
    /// Scheme, host and port, to be shown.
    pub(super) origin: String,
    /// What requests carry, the key included.
    pub(super) headers: HeaderMap,
    /// Who listens at the other end.
    pub(super) endpoint: Endpoint,
    secrets: Vec<SecretString>,
}

impl Route {
    pub(super) fn new(name: ModelName, settings: &Settings) -> Result<Self> {
        let provider = name.provider;
        let custom = settings.base_url.as_deref().map(str::trim).filter(|url| !url.is_empty());
        let key = settings.api_key.as_ref().filter(|key| !key.expose_secret().trim().is_empty());
        if key.is_none() && provider.requires_key(custom) {
            let reason = format!("there is no key; set {}", provider.key_variables().join(" or "));
            return Err(setup(provider.as_str(), reason));
        }
        let url = url(&name, custom.unwrap_or(provider.default_base_url()))?;
        let origin = url.origin().ascii_serialization();
        let endpoint = match Url::parse(provider.default_base_url()) {
            Ok(official) if official.origin() == url.origin() => Endpoint::Official,
            Ok(_) | Err(_) => Endpoint::Compatible,
        };
        let headers = headers(&name, key, &settings.headers)?;
        let mut secrets: Vec<SecretString> = key.cloned().into_iter().collect();
        let values = settings.headers.iter().map(|(_, value)| value.expose_secret());
        let passwords = url.password().into_iter();
        secrets.extend(
            values.chain(passwords).filter(|text| text.len() >= SECRET_BYTES_MIN).map(SecretString::from),
        );
        Ok(Self { name, url, origin, headers, endpoint, secrets })
    }

    /// Returns a client for this route alone.
    pub(super) fn client(&self, settings: &Settings) -> Result<reqwest::Client> {
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("segue/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(settings.connect_timeout)
            // A redirect would carry the key to another host.
            .redirect(Policy::none());
        if self.url.scheme() == "http" {
            // A machine without certificates can still talk to a model of its own.
            builder = builder.tls_certs_only([]);
        }
        if self.is_loopback() {
            builder = builder.no_proxy();
        }
        builder.build().map_err(|error| setup("the HTTP client", error.without_url().to_string()))
    }

    /// Returns whether the endpoint is on this machine.
    pub(super) fn is_loopback(&self) -> bool {
        let host = self.url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// Returns the texts that must not be shown.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &str> {
        self.secrets.iter().map(|secret| secret.expose_secret().trim())
    }
}

fn setup(what: &str, reason: String) -> Error {
    Error::Setup { what: what.to_owned(), reason }
}

/// Returns where requests go. The base URL is never repeated in an error: it may hold a password.
fn url(name: &ModelName, base: &str) -> Result<Url> {
    let what = format!("the base URL of {}", name.provider.as_str());
    let mut url = Url::parse(base)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        .ok_or_else(|| setup(&what, "it is not an http or https URL".to_owned()))?;
    let path = wire::path(name.provider, url.path(), &name.name);
    url.set_path(&path);
    if let Some((field, value)) = wire::query(name.provider) {
        url.query_pairs_mut().append_pair(field, value);
    }
    Ok(url)
}

fn headers(
    name: &ModelName,
    key: Option<&SecretString>,
    more: &[(String, SecretString)],
) -> Result<HeaderMap> {
    let provider = name.provider;
    let mut headers = HeaderMap::new();
    for (name, value) in wire::headers(provider) {
        headers.insert(*name, HeaderValue::from_static(value));
    }
    if let Some(key) = key {
        let (header, scheme) = wire::key_header(provider);
        let value = secret_value(&format!("{scheme}{}", key.expose_secret().trim()))
            .ok_or_else(|| setup(provider.as_str(), "the key holds characters that no key has".to_owned()))?;
        headers.insert(header, value);
    }
    for (header, value) in more {
        let unusable =
            || setup(&format!("the header {header}"), "it holds characters that no header has".to_owned());
        let value = secret_value(value.expose_secret()).ok_or_else(unusable)?;
        headers.insert(HeaderName::from_bytes(header.as_bytes()).map_err(|_| unusable())?, value);
    }
    Ok(headers)
}

fn secret_value(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

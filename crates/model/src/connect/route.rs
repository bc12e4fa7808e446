//! The route to a model: URL, headers and secrets. Nothing is sent here.

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};

use crate::Result;
use crate::error::Error;
use crate::name::ModelName;
use crate::settings::ProviderSettings;
use crate::wire::{self, Endpoint};

/// The minimum length in bytes of header values and passwords that are redacted. Redacting shorter values would
/// also remove common words.
const SECRET_BYTES_MIN: usize = 8;

/// The URL, headers and secrets of the requests to one model.
pub(super) struct ModelRoute {
    /// The model.
    pub(super) name: ModelName,
    /// The URL of the requests.
    pub(super) url: Url,
    /// The scheme, host and port, for messages.
    pub(super) display_origin: String,
    /// The headers of the requests, including the key.
    pub(super) headers: HeaderMap,
    /// The kind of endpoint: the provider's own, or a compatible server.
    pub(super) endpoint: Endpoint,
    /// The texts that must not appear in messages.
    secrets: Vec<SecretString>,
}

impl ModelRoute {
    /// Returns the route for a model. Sends nothing.
    pub(super) fn new(name: ModelName, settings: &ProviderSettings) -> Result<Self> {
        let provider = name.provider;
        let custom = settings.base_url.as_deref().map(str::trim).filter(|url| !url.is_empty());
        let key = settings.api_key.as_ref().filter(|key| !key.expose_secret().trim().is_empty());
        if key.is_none() && provider.requires_key(custom) {
            let reason = format!("there is no key; set {}", provider.key_variables().join(" or "));
            return Err(setup_error(provider.as_str(), reason));
        }
        let url = endpoint_url(&name, custom.unwrap_or(provider.default_base_url()))?;
        let display_origin = url.origin().ascii_serialization();
        let endpoint = match Url::parse(provider.default_base_url()) {
            Ok(official) if official.origin() == url.origin() => Endpoint::Official,
            Ok(_) | Err(_) => Endpoint::Compatible,
        };
        let headers = request_headers(&name, key, &settings.headers)?;
        let mut secrets: Vec<SecretString> = key.cloned().into_iter().collect();
        let values = settings.headers.iter().map(|(_, value)| value.expose_secret());
        let passwords = url.password().into_iter();
        secrets.extend(
            values.chain(passwords).filter(|text| text.len() >= SECRET_BYTES_MIN).map(SecretString::from),
        );
        Ok(Self { name, url, display_origin, headers, endpoint, secrets })
    }

    /// Returns an HTTP client for this route.
    pub(super) fn client(&self, settings: &ProviderSettings) -> Result<reqwest::Client> {
        let mut builder = http_client::client_builder(&self.url).connect_timeout(settings.connect_timeout);
        if self.is_loopback() {
            builder = builder.no_proxy();
        }
        builder.build().map_err(|error| setup_error("the HTTP client", error.without_url().to_string()))
    }

    /// Returns whether the endpoint is on this machine.
    pub(super) fn is_loopback(&self) -> bool {
        http_client::is_loopback(&self.url)
    }

    /// Returns the URL of the requests without a user name and a password.
    pub(super) fn url_without_credentials(&self) -> String {
        let mut url = self.url.clone();
        // This fails for URLs without a host, which have no credentials either.
        let _ = url.set_username("").and_then(|()| url.set_password(None));
        url.into()
    }

    /// Returns the secrets to remove from messages.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &str> {
        self.secrets.iter().map(|secret| secret.expose_secret().trim())
    }
}

/// Returns the error of an invalid setting.
fn setup_error(what: &str, reason: String) -> Error {
    Error::Setup { what: what.to_owned(), reason }
}

/// Returns the URL of the requests. Errors do not repeat the base URL, because it may contain a password.
fn endpoint_url(name: &ModelName, base: &str) -> Result<Url> {
    let what = format!("the base URL of {}", name.provider.as_str());
    let mut url = Url::parse(base)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        .ok_or_else(|| setup_error(&what, "it is not an http or https URL".to_owned()))?;
    let path = wire::request_path(name.provider, url.path(), &name.name);
    url.set_path(&path);
    if let Some((field, value)) = wire::request_query(name.provider) {
        url.query_pairs_mut().append_pair(field, value);
    }
    Ok(url)
}

/// Returns the headers of the requests: those of the provider, the key, and the additional ones from the
/// settings.
fn request_headers(
    name: &ModelName,
    key: Option<&SecretString>,
    additional: &[(String, SecretString)],
) -> Result<HeaderMap> {
    let provider = name.provider;
    let mut headers = HeaderMap::new();
    for (name, value) in wire::provider_headers(provider) {
        headers.insert(*name, HeaderValue::from_static(value));
    }
    if let Some(key) = key {
        let (header, scheme) = wire::key_header(provider);
        let value = secret_value(&format!("{scheme}{}", key.expose_secret().trim())).ok_or_else(|| {
            setup_error(
                provider.as_str(),
                "the key contains characters that are not allowed in a key".to_owned(),
            )
        })?;
        headers.insert(header, value);
    }
    for (header, value) in additional {
        let invalid_header = || {
            setup_error(
                &format!("the header {header}"),
                "it contains characters that are not allowed in a header".to_owned(),
            )
        };
        let value = secret_value(value.expose_secret()).ok_or_else(invalid_header)?;
        headers.insert(HeaderName::from_bytes(header.as_bytes()).map_err(|_| invalid_header())?, value);
    }
    Ok(headers)
}

/// Returns the text as a header value that is hidden in debug output, if it is a valid value.
fn secret_value(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

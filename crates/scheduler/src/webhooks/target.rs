//! Validation of webhook targets: by default only public internet addresses, over HTTPS. Clients must not use the
//! server to reach its own machine or network (server-side request forgery). A target is checked when its run is
//! created, and again for each connection, because the addresses of a host name can change.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use protocol::OwnerScope;
use reqwest::{Client, Url};

use crate::limits::WEBHOOK_URL_BYTES_MAX;
use crate::webhooks::resolver::{HostLookup, HostResolver};

/// The policy for webhook targets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WebhookTargetPolicy {
    /// Only public internet addresses, over HTTPS.
    #[default]
    Public,
    /// All addresses, including this machine and its network, over HTTP or HTTPS.
    Any,
}

/// The reason why a webhook target is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WebhookTargetError {
    /// The text is not an `http` or `https` URL with a host, or it is longer than 8 KiB.
    #[error("it is not an http or https URL")]
    InvalidUrl,
    /// The URL's scheme is `http`.
    #[error("it must begin with https://")]
    NotEncrypted,
    /// The URL contains a user name or a password, which would be stored and shown.
    #[error("it must not contain a user name or a password")]
    Credentials,
    /// The address is on this machine, in a private network, or reserved.
    #[error("its address is on this machine, in a private network, or reserved")]
    NotPublic,
    /// The host name has no address at the moment.
    #[error("its host cannot be found")]
    HostNotFound,
    /// The limit of concurrent host name lookups is reached.
    #[error("too many hosts are being looked up")]
    TooManyLookups,
    /// No HTTP client can be set up on this machine.
    #[error("set up an HTTP client: {0}")]
    ClientFailed(String),
}

impl WebhookTargetError {
    /// Returns whether a later attempt may succeed.
    pub(crate) const fn is_transient(&self) -> bool {
        match self {
            Self::HostNotFound | Self::TooManyLookups | Self::ClientFailed(_) => true,
            Self::InvalidUrl | Self::NotEncrypted | Self::Credentials | Self::NotPublic => false,
        }
    }
}

/// A webhook URL that passed the checks which need no lookup.
#[derive(Debug)]
pub(crate) struct WebhookTarget {
    url: Url,
    policy: WebhookTargetPolicy,
}

/// The host of a URL.
enum TargetHost {
    Address(IpAddr),
    Name(String),
}

impl WebhookTarget {
    /// Parses and checks a URL without a lookup of its host name.
    ///
    /// # Errors
    /// [`WebhookTargetError::InvalidUrl`], [`WebhookTargetError::NotEncrypted`], [`WebhookTargetError::Credentials`],
    /// or [`WebhookTargetError::NotPublic`] for a literal address or a name of a private network.
    pub(crate) fn parse(url: &str, policy: WebhookTargetPolicy) -> Result<Self, WebhookTargetError> {
        let parsed = Url::parse(url).ok().filter(|_| url.len() <= WEBHOOK_URL_BYTES_MAX);
        let url = parsed.filter(|url| url.has_host() && matches!(url.scheme(), "http" | "https"));
        let target = Self { url: url.ok_or(WebhookTargetError::InvalidUrl)?, policy };
        if !target.url.username().is_empty() || target.url.password().is_some() {
            return Err(WebhookTargetError::Credentials);
        }
        if policy == WebhookTargetPolicy::Any {
            return Ok(target);
        }
        if target.url.scheme() != "https" {
            return Err(WebhookTargetError::NotEncrypted);
        }
        match target.host() {
            TargetHost::Address(address) if !is_public(address) => Err(WebhookTargetError::NotPublic),
            TargetHost::Name(name) if !is_public_name(&name) => Err(WebhookTargetError::NotPublic),
            TargetHost::Address(_) | TargetHost::Name(_) => Ok(target),
        }
    }

    /// Resolves the host name and checks its addresses. A name without an address is accepted, because it may have one
    /// later.
    ///
    /// # Errors
    /// [`WebhookTargetError::NotPublic`] if an address is not allowed, and [`WebhookTargetError::TooManyLookups`].
    pub(crate) async fn check_address(
        &self,
        resolver: &HostResolver,
        scope: &OwnerScope,
    ) -> Result<(), WebhookTargetError> {
        match self.resolve(resolver, scope).await {
            Err(WebhookTargetError::HostNotFound) => Ok(()),
            resolved => resolved.map(drop),
        }
    }

    /// Returns the checked URL.
    pub(crate) const fn url(&self) -> &Url {
        &self.url
    }

    /// Returns the host and the port, which identify the lookup.
    pub(crate) fn host_and_port(&self) -> (Option<&str>, Option<u16>) {
        (self.url.host_str(), self.url.port_or_known_default())
    }

    /// Resolves the host name and returns an HTTP client that connects only to the addresses found, without redirects
    /// and proxies.
    ///
    /// # Errors
    /// Any [`WebhookTargetError`] except those of the URL itself.
    pub(crate) async fn client(
        &self,
        resolver: &HostResolver,
        scope: &OwnerScope,
        timeout: Duration,
    ) -> Result<Client, WebhookTargetError> {
        let addresses = self.resolve(resolver, scope).await?;
        // A proxy could send the request to an address that is not allowed.
        let mut builder = http_client::client_builder(&self.url).no_proxy().timeout(timeout);
        if let TargetHost::Name(name) = self.host() {
            builder = builder.resolve_to_addrs(&name, &addresses);
        }
        builder.build().map_err(|error| WebhookTargetError::ClientFailed(error.without_url().to_string()))
    }

    /// Resolves the host and applies the policy to every address.
    async fn resolve(
        &self,
        resolver: &HostResolver,
        scope: &OwnerScope,
    ) -> Result<Vec<SocketAddr>, WebhookTargetError> {
        let port = self.url.port_or_known_default().ok_or(WebhookTargetError::InvalidUrl)?;
        let addresses = match self.host() {
            TargetHost::Address(address) => vec![SocketAddr::new(address, port)],
            TargetHost::Name(name) => match resolver.resolve(scope, name, port).await {
                HostLookup::Addresses(addresses) => addresses,
                HostLookup::NotFound => return Err(WebhookTargetError::HostNotFound),
                HostLookup::TooMany => return Err(WebhookTargetError::TooManyLookups),
            },
        };
        let are_public = addresses.iter().all(|address| is_public(address.ip()));
        match self.policy {
            _ if addresses.is_empty() => Err(WebhookTargetError::HostNotFound),
            WebhookTargetPolicy::Public if !are_public => Err(WebhookTargetError::NotPublic),
            WebhookTargetPolicy::Public | WebhookTargetPolicy::Any => Ok(addresses),
        }
    }

    /// Returns the host as an address if it is a literal one, else as a name.
    fn host(&self) -> TargetHost {
        let host = self.url.host_str().unwrap_or_default();
        match host.trim_matches(['[', ']']).parse() {
            Ok(address) => TargetHost::Address(address),
            Err(_) => TargetHost::Name(host.to_owned()),
        }
    }
}

/// Returns whether the name can belong to a public host. Names without a dot and those of reserved domains cannot.
fn is_public_name(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let reserved = ["localhost", "local", "internal", "lan", "home.arpa"];
    name.contains('.')
        && !reserved.iter().any(|end| name.strip_suffix(end).is_some_and(|prefix| prefix.ends_with('.')))
}

/// Returns whether the address is a public internet address. An IPv4-mapped IPv6 address counts as its IPv4 address.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(mapped) => is_public_v4(mapped),
            None => is_public_v6(address),
        },
    }
}

/// Returns whether the IPv4 address is neither private nor reserved.
fn is_public_v4(address: Ipv4Addr) -> bool {
    let reserved = match address.octets() {
        // "This network" (0/8), shared address space (100.64/10), protocol assignments (192.0.0/24), 6to4 relays
        // (192.88.99/24), benchmarks (198.18/15), and reserved (240/4).
        [0 | 240.., ..] | [100, 64..=127, ..] | [192, 0, 0, _] | [192, 88, 99, _] | [198, 18 | 19, ..] => {
            true
        }
        _ => false,
    };
    !(reserved
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
        || address.is_documentation())
}

/// Returns whether the IPv6 address is global unicast (2000::/3) and not reserved.
fn is_public_v6(address: Ipv6Addr) -> bool {
    match address.segments() {
        // Protocol assignments such as Teredo, and documentation.
        [0x2001, second, ..] if second <= 0x01ff || second == 0x0db8 => false,
        [0x3fff, second, ..] if second <= 0x0fff => false,
        // 6to4 embeds an IPv4 address.
        [0x2002, high, low, ..] => is_public_v4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low))),
        [first, ..] => (0x2000..0x4000).contains(&first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k6_only_addresses_of_the_internet_are_told() {
        let public = [
            "93.184.216.34",
            "8.8.8.8",
            "2606:4700::1111",
            "2001:4860:4860::8888",
            "::ffff:8.8.8.8",
            "2002:808:808::",
        ];
        for address in public {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
        let inside = [
            "127.0.0.1",
            "127.9.9.9",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "0.1.2.3",
            "100.64.0.1",
            "100.127.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "198.18.0.1",
            "198.19.1.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::7f00:1",
            "64:ff9b::a00:1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:a00:1::",
            "3fff::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ];
        for address in inside {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn k6_an_address_that_must_not_be_told_is_refused_by_its_url() {
        let check = |url: &str, refusal: Option<WebhookTargetError>| {
            let read = WebhookTarget::parse(url, WebhookTargetPolicy::Public).map(drop);
            assert_eq!(read.err(), refusal, "{url}");
        };
        check("https://example.com/hook?x=1", None);
        check("https://8.8.8.8:8443/", None);
        check("https://[2606:4700::1111]/", None);
        for url in
            ["", "example.com", "/hook", "ftp://example.com/", "file:///etc/passwd", "https://", "data:,x"]
        {
            check(url, Some(WebhookTargetError::InvalidUrl));
        }
        check(
            &format!("https://example.com/{}", "x".repeat(WEBHOOK_URL_BYTES_MAX)),
            Some(WebhookTargetError::InvalidUrl),
        );
        check("http://example.com/", Some(WebhookTargetError::NotEncrypted));
        check("https://user:secret@example.com/", Some(WebhookTargetError::Credentials));
        check("https://user@example.com/", Some(WebhookTargetError::Credentials));
        for url in [
            "https://localhost/",
            "https://LOCALHOST./",
            "https://a.localhost/",
            "https://printer.local/",
            "https://metadata.google.internal/",
            "https://intranet/",
            "https://127.0.0.1/",
            "https://2130706433/",
            "https://0x7f.1/",
            "https://0177.0.0.1/",
            "https://127.1/",
            "https://[::1]/",
            "https://[::ffff:127.0.0.1]/",
            "https://169.254.169.254/latest/meta-data",
            "https://10.1.2.3/",
            "https://[fe80::1]/",
            "https://0/",
        ] {
            check(url, Some(WebhookTargetError::NotPublic));
        }
        assert!(WebhookTarget::parse("http://127.0.0.1:1/", WebhookTargetPolicy::Any).is_ok());
        assert!(WebhookTarget::parse("http://a:b@127.0.0.1:1/", WebhookTargetPolicy::Any).is_err());
    }

    #[tokio::test]
    async fn k6_the_addresses_of_a_name_are_checked_again_for_each_connection() {
        // A URL that `parse` would refuse.
        let url = Url::parse("https://localhost:1/").unwrap();
        let target = WebhookTarget { url, policy: WebhookTargetPolicy::Public };
        let (resolver, scope) = (HostResolver::default(), OwnerScope::Owner(None));
        assert_eq!(target.check_address(&resolver, &scope).await, Err(WebhookTargetError::NotPublic));
        let client = target.client(&resolver, &scope, Duration::from_secs(1)).await;
        assert_eq!(client.err(), Some(WebhookTargetError::NotPublic));
    }
}

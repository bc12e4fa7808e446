//! Where a webhook may go: to addresses of the internet, over https. What is on this machine or in its network is not for
//! clients of the server to reach by way of it; that is looked at when a run is taken and again whenever a connection is
//! made, because names change what they stand for.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use protocol::Scope;
use reqwest::redirect::Policy;
use reqwest::{Client, Url};

use crate::limits::WEBHOOK_URL_BYTES_MAX;
use crate::webhooks::lookups::{Found, Lookups};

/// Which addresses may be told of the end of runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WebhookTargets {
    /// Those of the internet, over https.
    #[default]
    Public,
    /// All, those of this machine and its network included, and http too.
    Any,
}

/// Why an address is not told of anything.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is no URL of the web.
    #[error("it is no URL of a web server")]
    NoUrl,
    /// It would be told without encryption.
    #[error("it must begin with https://")]
    NotEncrypted,
    /// The name and password in it would be kept and shown.
    #[error("it must not hold a name or password")]
    Credentials,
    /// It is on this machine, in its network, or reserved.
    #[error("it leads to this machine, its network, or an address that is reserved")]
    NotPublic,
    /// Nothing has that name at the moment.
    #[error("its host cannot be found")]
    NotFound,
    /// Too many names are being looked up.
    #[error("too many hosts are being looked up")]
    TooMany,
    /// Nothing can be sent from this machine.
    #[error("this machine cannot send it: {0}")]
    NoClient(String),
}

impl Refusal {
    /// Returns whether it may be otherwise at another time.
    pub(crate) const fn may_pass(&self) -> bool {
        match self {
            Self::NotFound | Self::TooMany | Self::NoClient(_) => true,
            Self::NoUrl | Self::NotEncrypted | Self::Credentials | Self::NotPublic => false,
        }
    }
}

/// An address that may be told as far as its URL says.
#[derive(Debug)]
pub(crate) struct Target {
    url: Url,
    targets: WebhookTargets,
}

/// Where a URL leads.
enum Host {
    Address(IpAddr),
    Name(String),
}

impl Target {
    /// Reads a URL.
    ///
    /// # Errors
    /// When it says by itself that it must not be told.
    pub(crate) fn read(url: &str, targets: WebhookTargets) -> Result<Self, Refusal> {
        let parsed = Url::parse(url).ok().filter(|_| url.len() <= WEBHOOK_URL_BYTES_MAX);
        let url = parsed.filter(|url| url.has_host() && matches!(url.scheme(), "http" | "https"));
        let target = Self { url: url.ok_or(Refusal::NoUrl)?, targets };
        if !target.url.username().is_empty() || target.url.password().is_some() {
            return Err(Refusal::Credentials);
        }
        if targets == WebhookTargets::Any {
            return Ok(target);
        }
        if target.url.scheme() != "https" {
            return Err(Refusal::NotEncrypted);
        }
        match target.host() {
            Host::Address(address) if !is_public(address) => Err(Refusal::NotPublic),
            Host::Name(name) if !is_public_name(&name) => Err(Refusal::NotPublic),
            Host::Address(_) | Host::Name(_) => Ok(target),
        }
    }

    /// Looks at what its name stands for now. One that stands for nothing at the moment may do so later.
    ///
    /// # Errors
    /// [`Refusal::NotPublic`] when it is one that must not be told, and [`Refusal::TooMany`].
    pub(crate) async fn check(&self, lookups: &Lookups, scope: &Scope) -> Result<(), Refusal> {
        match self.resolve(lookups, scope).await {
            Err(Refusal::NotFound) => Ok(()),
            resolved => resolved.map(drop),
        }
    }

    pub(crate) const fn url(&self) -> &Url {
        &self.url
    }

    /// Returns what is looked up for it.
    pub(crate) fn place(&self) -> (Option<&str>, Option<u16>) {
        (self.url.host_str(), self.url.port_or_known_default())
    }

    /// Returns a client that reaches what the name stands for now, and nothing else.
    ///
    /// # Errors
    /// When it must not be told, or cannot be.
    pub(crate) async fn client(
        &self,
        lookups: &Lookups,
        scope: &Scope,
        time_max: Duration,
    ) -> Result<Client, Refusal> {
        let addresses = self.resolve(lookups, scope).await?;
        let mut builder = Client::builder()
            .user_agent(concat!("segue/", env!("CARGO_PKG_VERSION")))
            // What answers with a redirect could send it to where it must not go, and so could a proxy.
            .redirect(Policy::none())
            .no_proxy()
            .timeout(time_max);
        if let Host::Name(name) = self.host() {
            builder = builder.resolve_to_addrs(&name, &addresses);
        }
        if self.url.scheme() == "http" {
            // It needs no certificates, and a machine may have none.
            builder = builder.tls_certs_only([]);
        }
        builder.build().map_err(|error| Refusal::NoClient(error.without_url().to_string()))
    }

    async fn resolve(&self, lookups: &Lookups, scope: &Scope) -> Result<Vec<SocketAddr>, Refusal> {
        let port = self.url.port_or_known_default().ok_or(Refusal::NoUrl)?;
        let addresses = match self.host() {
            Host::Address(address) => vec![SocketAddr::new(address, port)],
            Host::Name(name) => match lookups.find(scope, name, port).await {
                Found::Addresses(addresses) => addresses,
                Found::Nothing => return Err(Refusal::NotFound),
                Found::TooMany => return Err(Refusal::TooMany),
            },
        };
        let are_public = addresses.iter().all(|address| is_public(address.ip()));
        match self.targets {
            _ if addresses.is_empty() => Err(Refusal::NotFound),
            WebhookTargets::Public if !are_public => Err(Refusal::NotPublic),
            WebhookTargets::Public | WebhookTargets::Any => Ok(addresses),
        }
    }

    fn host(&self) -> Host {
        let host = self.url.host_str().unwrap_or_default();
        match host.trim_matches(['[', ']']).parse() {
            Ok(address) => Host::Address(address),
            Err(_) => Host::Name(host.to_owned()),
        }
    }
}

/// Returns whether a name may stand for something outside.
fn is_public_name(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let inside = ["localhost", "local", "internal", "lan", "home.arpa"];
    name.contains('.')
        && !inside.iter().any(|end| name.strip_suffix(end).is_some_and(|rest| rest.ends_with('.')))
}

/// Returns whether the address is one of the internet.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(mapped) => is_public_v4(mapped),
            None => is_public_v6(address),
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let reserved = match address.octets() {
        // This network, shared address space, protocols, 6to4 relays, benchmarks, and what is not assigned.
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

fn is_public_v6(address: Ipv6Addr) -> bool {
    match address.segments() {
        // Protocols such as Teredo, and documentation.
        [0x2001, second, ..] if second <= 0x01ff || second == 0x0db8 => false,
        [0x3fff, second, ..] if second <= 0x0fff => false,
        // 6to4 holds an address of the older kind.
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
        let check = |url: &str, refusal: Option<Refusal>| {
            let read = Target::read(url, WebhookTargets::Public).map(drop);
            assert_eq!(read.err(), refusal, "{url}");
        };
        check("https://example.com/hook?x=1", None);
        check("https://8.8.8.8:8443/", None);
        check("https://[2606:4700::1111]/", None);
        for url in
            ["", "example.com", "/hook", "ftp://example.com/", "file:///etc/passwd", "https://", "data:,x"]
        {
            check(url, Some(Refusal::NoUrl));
        }
        check(&format!("https://example.com/{}", "x".repeat(WEBHOOK_URL_BYTES_MAX)), Some(Refusal::NoUrl));
        check("http://example.com/", Some(Refusal::NotEncrypted));
        check("https://user:secret@example.com/", Some(Refusal::Credentials));
        check("https://user@example.com/", Some(Refusal::Credentials));
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
            check(url, Some(Refusal::NotPublic));
        }
        assert!(Target::read("http://127.0.0.1:1/", WebhookTargets::Any).is_ok());
        assert!(Target::read("http://a:b@127.0.0.1:1/", WebhookTargets::Any).is_err());
    }

    #[tokio::test]
    async fn k6_what_a_name_stands_for_is_looked_at_again_when_it_is_told() {
        // A name that got past the look at the URL.
        let url = Url::parse("https://localhost:1/").unwrap();
        let target = Target { url, targets: WebhookTargets::Public };
        let (lookups, scope) = (Lookups::default(), Scope::Owner(None));
        assert_eq!(target.check(&lookups, &scope).await, Err(Refusal::NotPublic));
        let client = target.client(&lookups, &scope, Duration::from_secs(1)).await;
        assert_eq!(client.err(), Some(Refusal::NotPublic));
    }
}

//! TLS for connections: the connector, and the verification of the server's certificate. The module `target` chooses
//! the mode.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::{Error, Result};

/// The verification of a server's certificate.
#[derive(Debug, Clone)]
pub(crate) enum CertificateVerification {
    /// Any certificate is accepted: the connection is encrypted, but the server is not authenticated.
    None,
    /// The certificate must match the host name, and be issued by an authority of the PEM file `root`, or by one that
    /// this machine trusts.
    Full { root: Option<PathBuf> },
}

/// Returns the TLS connector for a verification mode.
///
/// # Errors
/// [`Error::ConnectionRejected`] if the certificates cannot be loaded.
pub(crate) fn connector(verification: &CertificateVerification) -> Result<MakeRustlsConnect> {
    let provider = Arc::new(ring::default_provider());
    let rejected = |error: &dyn std::fmt::Display| Error::ConnectionRejected(error.to_string());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| rejected(&error))?;
    let config = match verification {
        CertificateVerification::None => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificateVerifier(provider)))
            .with_no_client_auth(),
        CertificateVerification::Full { root: None } => {
            builder.with_platform_verifier().map_err(|error| rejected(&error))?.with_no_client_auth()
        }
        CertificateVerification::Full { root: Some(path) } => {
            let unreadable = |error: &dyn std::fmt::Display| {
                Error::ConnectionRejected(format!("{}: {error}", path.display()))
            };
            let mut roots = RootCertStore::empty();
            for certificate in CertificateDer::pem_file_iter(path).map_err(|error| unreadable(&error))? {
                let certificate = certificate.map_err(|error| unreadable(&error))?;
                roots.add(certificate).map_err(|error| unreadable(&error))?;
            }
            builder.with_root_certificates(roots).with_no_client_auth()
        }
    };
    Ok(MakeRustlsConnect::new(config))
}

/// A verifier that accepts any certificate, as `sslmode=require` specifies. The handshake signature is still verified
/// against the certificate.
#[derive(Debug)]
struct AnyCertificateVerifier(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificateVerifier {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

//! The trusted certificates: the system's, or Mozilla's where the system has none (a bare container). The certificates of
//! NODE_EXTRA_CA_CERTS are always added, as in Node itself.

use super::failure::HttpError;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::sync::{Arc, OnceLock};

/// Created once, because reading the system's certificates takes milliseconds.
static CONFIG: OnceLock<Result<ClientConfig, HttpError>> = OnceLock::new();
static CERTIFICATES: OnceLock<Vec<CertificateDer<'static>>> = OnceLock::new();

/// The certificates of authorities that the system trusts, and those of NODE_EXTRA_CA_CERTS. Blocks the first time.
pub fn trusted_certificates() -> &'static [CertificateDer<'static>] {
    CERTIFICATES.get_or_init(|| {
        let mut certificates = rustls_native_certs::load_native_certs().certs;
        certificates.extend(extra_certificates());
        certificates
    })
}

/// The certificates of NODE_EXTRA_CA_CERTS. As in Node, an unreadable file is not an error here: the handshake will fail with the missing certificate.
pub fn extra_certificates() -> Vec<CertificateDer<'static>> {
    let path = std::env::var_os("NODE_EXTRA_CA_CERTS");
    let read = path.and_then(|path| CertificateDer::pem_file_iter(path).ok());
    read.map(|all| all.flatten().collect()).unwrap_or_default()
}

/// The TLS set-up of every connection that this process opens as a client.
pub fn tls_config() -> Result<ClientConfig, HttpError> {
    CONFIG.get_or_init(load).clone()
}

fn load() -> Result<ClientConfig, HttpError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    roots.add_parsable_certificates(extra_certificates());
    let mut config = config(roots, trusted_certificates().to_vec())?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// The same set-up, with the trust in these certificates alone.
pub fn tls_config_trusting(trusted: Vec<CertificateDer<'static>>) -> Result<ClientConfig, HttpError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(trusted.iter().cloned());
    config(roots, trusted)
}

/// `trusted`: the certificates of the roots.
fn config(roots: RootCertStore, trusted: Vec<CertificateDer<'static>>) -> Result<ClientConfig, HttpError> {
    let wrong = |problem: String| HttpError::InvalidRequest { problem };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|error| wrong(error.to_string()))?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier { usual: verifier, trusted }))
        .with_no_client_auth();
    Ok(config)
}

/// The usual checks, and one more: a certificate that is itself trusted is taken for its names, as OpenSSL and Node take it. It may be one of an
/// authority, which `openssl req -x509` makes.
#[derive(Debug)]
struct Verifier {
    usual: Arc<WebPkiServerVerifier>,
    trusted: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        server: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let error = match self.usual.verify_server_cert(server, between, name, stapled, now) {
            Err(error) => error,
            verified => return verified,
        };
        // Its time was looked at before this.
        let is_authority = matches!(&error, Error::InvalidCertificate(CertificateError::Other(problem))
            if problem.to_string() == "CaUsedAsEndEntity");
        if !is_authority || !self.trusted.contains(server) {
            return Err(error);
        }
        rustls::client::verify_server_name(&ParsedCertificate::try_from(server)?, name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

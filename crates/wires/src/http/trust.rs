//! The trusted certificates: the system's, or Mozilla's where the system has none (a bare container). The certificates of
//! NODE_EXTRA_CA_CERTS are always added, as in Node itself.

use super::failure::HttpError;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
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
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| HttpError::InvalidRequest { problem: error.to_string() })?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

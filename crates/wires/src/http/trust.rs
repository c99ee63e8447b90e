//! The trusted certificates: the system's, or Mozilla's where the system has none (a bare container). The certificates of
//! NODE_EXTRA_CA_CERTS are always added, as in Node itself.

use super::failure::HttpError;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::sync::{Arc, OnceLock};

/// Created once, because reading the system's certificates takes milliseconds.
static CONFIG: OnceLock<Result<ClientConfig, HttpError>> = OnceLock::new();

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
    if let Some(path) = std::env::var_os("NODE_EXTRA_CA_CERTS") {
        // As in Node, an unreadable file is not an error here: the handshake will fail with the missing certificate.
        if let Ok(extra) = CertificateDer::pem_file_iter(path) {
            roots.add_parsable_certificates(extra.flatten());
        }
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| HttpError::InvalidRequest { problem: error.to_string() })?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

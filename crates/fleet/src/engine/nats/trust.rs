//! Decides which server a fleet trusts: over TLS, only one with a trusted certificate.

use async_nats::rustls;
use async_nats::rustls::CertificateError;
use async_nats::rustls::pki_types::CertificateDer;
use async_nats::rustls::pki_types::pem::PemObject;
use async_nats::{ConnectError, ConnectOptions};
use ground::error::{Error, ErrorCode};
use ground::os::on_disk;
use std::io;
use std::path::Path;
use wires::http;

/// Address prefix of a server on this machine. No certificates are loaded for it.
const OWN: &str = "nats://127.0.0.1:";

/// Trusts the certificates in the file `ca` alone, or without it those that this process trusts everywhere.
pub(super) async fn trusting(
    options: ConnectOptions,
    servers: &[String],
    ca: Option<&Path>,
) -> Result<ConnectOptions, Error> {
    if let Some(file) = ca {
        let found = on_disk({
            let file = file.to_owned();
            move || certificates(&file)
        });
        return match found.await {
            Ok(found) if found.is_empty() => Err(unusable(file, "contains no certificate")),
            Ok(found) => Ok(options.tls_client_config(usable(http::tls_config_trusting(found))?)),
            Err(error) => Err(unusable(file, &format!("can't be read: {error}"))),
        };
    }
    if servers.iter().all(|server| server.starts_with(OWN)) {
        return Ok(options);
    }
    let mut config = usable(http::tls_config())?;
    config.alpn_protocols.clear();
    Ok(options.tls_client_config(config))
}

fn usable<Config>(made: Result<Config, http::HttpError>) -> Result<Config, Error> {
    made.map_err(|error| {
        Error::new(ErrorCode::FleetUnreachable, format!("TLS is unavailable on this machine: {error}"))
    })
}

fn certificates(file: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let all = CertificateDer::pem_file_iter(file).map_err(io::Error::other)?;
    all.map(|certificate| certificate.map_err(io::Error::other)).collect()
}

fn unusable(file: &Path, why: &str) -> Error {
    Error::invalid_option("ca", format!("{} {why}: expected certificates in PEM", file.display()))
}

/// Advice for a server whose certificate is not trusted; `None` for another error.
pub(super) fn distrust(error: &ConnectError) -> Option<String> {
    let source = std::error::Error::source(error)?;
    let fault = source.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref::<rustls::Error>()?;
    let rustls::Error::InvalidCertificate(why) = fault else { return None };
    let advice = match why {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "connect by a name that the certificate contains, or add this name to it"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "renew the certificate",
        _ => {
            "name the file with the certificate of its signer in `ca`, or in the variable NODE_EXTRA_CA_CERTS"
        }
    };
    Some(format!("shows a certificate that is not trusted ({fault}): {advice}"))
}

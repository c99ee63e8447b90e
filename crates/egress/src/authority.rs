//! A certificate authority for one program. Its key is in this process's memory only, and is gone with the proxy.
//!
//! The program trusts it, and nobody else does: it finds the certificate by its environment ([`environment`](Authority::environment)).

use crate::host::Host;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ground::lock::lock;
use ground::os::{private_files, private_folders};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use std::collections::HashMap;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto};

const NAME: &str = "Sheepdog, for one program";
/// No program runs for so long, and no clock is so wrong.
const VALID: Duration = Duration::from_secs(90 * 24 * 3600);
const BEFORE: Duration = Duration::from_secs(24 * 3600);
/// They replace what the program trusts, so they name all authorities.
const WHOLE: [&str; 9] = [
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO",
    // A file in npm's configuration would take the place of what Node trusts.
    "npm_config_cafile",
    "AWS_CA_BUNDLE",
    "CODEX_CA_CERTIFICATE",
];
/// They add to what the program trusts.
const ADDED: [&str; 2] = ["NODE_EXTRA_CA_CERTS", "DENO_CERT"];

pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    servers: Mutex<HashMap<String, Arc<ServerConfig>>>,
    files: Files,
}

impl Authority {
    /// Makes the authority, and files with its certificate in a new folder below `place`. Blocks.
    pub(crate) fn new(place: &Path) -> io::Result<Authority> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, NAME);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        set_time(&mut params);
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let certificate = params.self_signed(&key).map_err(io::Error::other)?;
        let files = Files::write(place, certificate.der())?;
        Ok(Authority { issuer: Issuer::new(params, key), servers: Mutex::default(), files })
    }

    /// The variables by which programs find the certificate.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let variables = |names: &[&str], file: &Path| -> Vec<(String, String)> {
            names.iter().map(|name| ((*name).to_owned(), file.display().to_string())).collect()
        };
        [variables(&WHOLE, &self.files.whole), variables(&ADDED, &self.files.added)].concat()
    }

    /// The folder of the files that the program reads.
    pub(crate) fn folder(&self) -> &Path {
        &self.files.folder
    }

    /// A server in the place of this host.
    pub(crate) fn server(&self, host: &Host) -> io::Result<Arc<ServerConfig>> {
        let name = host.to_string();
        let mut servers = lock(&self.servers);
        if let Some(server) = servers.get(&name) {
            return Ok(server.clone());
        }
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name.as_str());
        params.subject_alt_names = match host {
            Host::Address(address) => vec![SanType::IpAddress(*address)],
            Host::Name(name) => vec![SanType::DnsName(name.as_str().try_into().map_err(io::Error::other)?)],
        };
        if host.is_local() {
            params.subject_alt_names = vec![
                SanType::DnsName("localhost".try_into().map_err(io::Error::other)?),
                SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)),
                SanType::IpAddress(IpAddr::V6(Ipv6Addr::LOCALHOST)),
            ];
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        set_time(&mut params);
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(io::Error::other)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut server = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .map_err(io::Error::other)?;
        // One request after another, so that each can be looked at.
        server.alpn_protocols = vec![b"http/1.1".to_vec()];
        let server = Arc::new(server);
        servers.insert(name, server.clone());
        Ok(server)
    }
}

fn set_time(params: &mut CertificateParams) {
    let now = SystemTime::now();
    params.not_before = (now - BEFORE).into();
    params.not_after = (now + VALID).into();
}

/// Certificates for the program, in a folder that is removed with this.
struct Files {
    folder: PathBuf,
    whole: PathBuf,
    added: PathBuf,
}

impl Files {
    fn write(place: &Path, certificate: &[u8]) -> io::Result<Files> {
        let random = ground::random::key::<8>()
            .ok_or_else(|| io::Error::other("the system gives no random numbers"))?;
        let folder = place.join(format!("sheepdog-certificates-{random}"));
        // Another user's folder of this name would be an error.
        private_folders().create(&folder)?;
        let files = Files { whole: folder.join("all.pem"), added: folder.join("own.pem"), folder };
        let own = pem(certificate);
        // Node adds these to its own. The host's are meant for the program too.
        let trusted = wires::http::trusted_certificates();
        let whole: String = trusted.iter().map(|certificate| pem(certificate)).chain([own.clone()]).collect();
        let extra: String =
            wires::http::extra_certificates().iter().map(|certificate| pem(certificate)).collect();
        for (path, text) in [(&files.whole, whole), (&files.added, own + &extra)] {
            let file = private_files().write(true).create_new(true).open(path);
            file.and_then(|mut file| file.write_all(text.as_bytes()))?;
        }
        Ok(files)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // Two small files that hold no secret: what can't be removed does no harm.
        let _ = std::fs::remove_file(&self.whole);
        let _ = std::fs::remove_file(&self.added);
        let _ = std::fs::remove_dir(&self.folder);
    }
}

fn pem(certificate: &[u8]) -> String {
    let encoded = STANDARD.encode(certificate);
    let lines: Vec<&str> =
        encoded.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

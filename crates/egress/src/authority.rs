//! A certificate authority for one program. Its key is in this process's memory only, and is gone with the proxy.
//!
//! The program trusts it, and nobody else does: it finds the certificate by its environment ([`environment`](Authority::environment)).

use crate::host::Host;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ground::lock::lock;
use ground::os::{ContainedFolders, HeldFolder, own_folder, own_names, read_short_text};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, SystemTime};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto};

const NAME: &str = "Sheepdog, for one program";
/// No program runs for so long, and no clock is so wrong.
const VALID: Duration = Duration::from_secs(90 * 24 * 3600);
const BEFORE: Duration = Duration::from_secs(24 * 3600);
/// Most servers that are kept. A program may ask for any name below a listed one.
const MAX_SERVERS: usize = 256;
/// They replace what the program trusts, so they name all authorities. So does each variable that leads to a file with an authority that
/// is trusted here.
const WHOLE: [&str; 15] = [
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
    // Tools that know no other variable: Nix, httplib2, Perl, gRPC, Hex, gcloud.
    "NIX_SSL_CERT_FILE",
    "HTTPLIB2_CA_CERTS",
    "PERL_LWP_SSL_CA_FILE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "HEX_CACERTS_PATH",
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
];
/// They add to what the program trusts.
const ADDED: [&str; 2] = ["NODE_EXTRA_CA_CERTS", "DENO_CERT"];

/// Whether programs find the certificate by this variable.
pub(crate) fn is_variable(name: &str) -> bool {
    WHOLE.iter().chain(&ADDED).any(|known| *known == name)
}

pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    servers: Mutex<HashMap<String, Arc<ServerConfig>>>,
    files: Files,
    /// Variables of the host's that lead to the same authorities.
    inherited: Vec<String>,
}

impl Authority {
    /// Makes the authority, and files with its certificate in a new folder below `place`. `inherited`: the variables that the program gets
    /// from the host. Blocks.
    pub(crate) fn new(place: &Path, inherited: &[(OsString, OsString)]) -> io::Result<Authority> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, NAME);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        set_time(&mut params);
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let certificate = params.self_signed(&key).map_err(io::Error::other)?;
        let (trusted, inherited) = trusted_by(inherited);
        let files = Files::write(place, certificate.der(), &trusted)?;
        Ok(Authority { issuer: Issuer::new(params, key), servers: Mutex::default(), files, inherited })
    }

    /// The variables by which programs find the certificate.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let variables = |names: &[&str], file: &Path| -> Vec<(String, String)> {
            names.iter().map(|name| ((*name).to_owned(), file.display().to_string())).collect()
        };
        let inherited: Vec<&str> = self.inherited.iter().map(String::as_str).collect();
        let whole = [variables(&WHOLE, &self.files.whole), variables(&inherited, &self.files.whole)];
        [whole.concat(), variables(&ADDED, &self.files.added)].concat()
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
            let addresses =
                [IpAddr::V4(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into(), Ipv4Addr::UNSPECIFIED.into()];
            params.subject_alt_names.extend(addresses.map(SanType::IpAddress));
            for name in own_names() {
                // A machine may have a name that no certificate can have.
                params.subject_alt_names.extend(name.as_str().try_into().ok().map(SanType::DnsName));
            }
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
        if servers.len() >= MAX_SERVERS {
            servers.clear();
        }
        servers.insert(name, server.clone());
        Ok(server)
    }
}

/// The longest file of certificates that is looked at.
const LONGEST_FILE: u64 = 4 * 1024 * 1024;

/// All certificates that the program trusts by the host's variables, and this process does; and the variables that lead to files with one of
/// them. A client's own certificate is in no such file.
fn trusted_by(inherited: &[(OsString, OsString)]) -> (Vec<CertificateDer<'static>>, Vec<String>) {
    let files: Vec<(&str, Vec<CertificateDer<'static>>)> = inherited
        .iter()
        .filter_map(|(name, value)| Some((name.to_str()?, certificates_in(Path::new(value))?)))
        .collect();
    let mut trusted = wires::http::trusted_certificates().to_vec();
    trusted
        .extend(files.iter().filter(|(name, _)| is_variable(name)).flat_map(|(_, all)| all.iter().cloned()));
    let mut known = HashSet::new();
    trusted.retain(|certificate| known.insert(certificate.clone()));
    let leads = files.iter().filter(|(name, all)| {
        !is_variable(name) && all.iter().any(|certificate| known.contains(certificate))
    });
    let variables: Vec<String> = leads.clone().map(|(name, _)| (*name).to_owned()).collect();
    let more: Vec<_> = leads.flat_map(|(_, all)| all.iter().cloned()).collect();
    (trusted.iter().cloned().chain(more).collect(), variables)
}

/// `None`: no path of a file with certificates alone.
fn certificates_in(path: &Path) -> Option<Vec<CertificateDer<'static>>> {
    if !path.is_absolute() {
        return None;
    }
    let text = read_short_text(path, LONGEST_FILE).ok().filter(|text| !text.contains("PRIVATE KEY"))?;
    let all: Vec<_> = CertificateDer::pem_slice_iter(text.as_bytes()).flatten().collect();
    (!all.is_empty()).then_some(all)
}

fn set_time(params: &mut CertificateParams) {
    let now = SystemTime::now();
    params.not_before = (now - BEFORE).into();
    params.not_after = (now + VALID).into();
}

const ALL: &str = "all.pem";
const OWN: &str = "own.pem";

/// Certificates for the program, in a folder that is removed with this. Another program may write to the place of this folder, and
/// put a link there. So the folder is held, and never reached by its name again.
struct Files {
    place: HeldFolder,
    held: HeldFolder,
    name: String,
    folder: PathBuf,
    whole: PathBuf,
    added: PathBuf,
}

impl Files {
    fn write(place: &Path, certificate: &[u8], trusted: &[CertificateDer]) -> io::Result<Files> {
        static SWEPT: Once = Once::new();
        let random = ground::random::key::<8>()
            .ok_or_else(|| io::Error::other("the system gives no random numbers"))?;
        SWEPT.call_once(|| own_folder::sweep(place));
        let place = HeldFolder::open(place, &ContainedFolders::default())?;
        let name = own_folder::name(&random);
        // Another user's folder of this name would be an error.
        let held = place.make_new(&name)?;
        let folder = held.path().to_owned();
        let files = Files { whole: folder.join(ALL), added: folder.join(OWN), folder, name, held, place };
        let own = pem(certificate);
        // Node adds these to its own. The host's are meant for the program too.
        let whole: String = trusted.iter().map(|certificate| pem(certificate)).chain([own.clone()]).collect();
        let extra: String =
            wires::http::extra_certificates().iter().map(|certificate| pem(certificate)).collect();
        for (name, text) in [(ALL, whole), (OWN, own + &extra)] {
            files.held.create(name)?.write_all(text.as_bytes())?;
        }
        Ok(files)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // Two small files that hold no secret: what can't be removed does no harm.
        let _ = self.held.remove(ALL);
        let _ = self.held.remove(OWN);
        let _ = self.place.remove_all(&self.name);
    }
}

fn pem(certificate: &[u8]) -> String {
    let encoded = STANDARD.encode(certificate);
    let lines: Vec<&str> =
        encoded.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_lead_to_a_trusted_bundle_are_known_by_their_value() {
        let place = tempfile::tempdir().unwrap();
        let made = |name: &str| {
            let mut params = CertificateParams::default();
            params.distinguished_name.push(DnType::CommonName, name);
            pem(params.self_signed(&KeyPair::generate().unwrap()).unwrap().der())
        };
        let write = |name: &str, text: &str| {
            let path = place.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.into_os_string()
        };
        let (corporate, own, other) = (made("corporate"), made("client"), made("database"));
        let bundle = write("bundle.pem", &corporate);
        let variables: Vec<(OsString, OsString)> = [
            ("SSL_CERT_FILE", bundle.clone()),
            ("SOME_TOOLS_CA", bundle),
            ("A_COPY", write("copy.pem", &format!("# words\n{other}{corporate}"))),
            ("CLIENT_CERT", write("client.pem", &own)),
            ("WITH_KEY", write("key.pem", &format!("{corporate}-----BEGIN PRIVATE KEY-----"))),
            ("WORDS", write("words", "words")),
            ("FOLDER", place.path().into()),
            ("RELATIVE", "bundle.pem".into()),
        ]
        .map(|(name, value)| (name.into(), value))
        .into();
        let authority = Authority::new(place.path(), &variables).unwrap();
        assert_eq!(authority.inherited, ["SOME_TOOLS_CA", "A_COPY"]);
        let text = std::fs::read_to_string(&authority.files.whole).unwrap();
        assert!(text.contains(&corporate) && text.contains(&other) && !text.contains(&own));
        let environment = authority.environment();
        let of =
            |name: &str| environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        let whole = Some(authority.files.whole.display().to_string());
        for name in ["SOME_TOOLS_CA", "A_COPY", "SSL_CERT_FILE", "NIX_SSL_CERT_FILE", "HTTPLIB2_CA_CERTS"] {
            assert_eq!(of(name), whole, "{name}");
        }
        assert_eq!(of("CLIENT_CERT"), None);
    }

    #[test]
    fn names_that_a_program_makes_up_take_no_room() {
        let place = tempfile::tempdir().unwrap();
        let authority = Authority::new(place.path(), &[]).unwrap();
        let server = |number: usize| authority.server(&Host::parse(&format!("n{number}.example")).unwrap());
        let first = server(0).unwrap();
        assert!(Arc::ptr_eq(&first, &server(0).unwrap()));
        for number in 0..=MAX_SERVERS {
            server(number).unwrap();
        }
        assert!(lock(&authority.servers).len() <= MAX_SERVERS);
    }

    #[test]
    fn a_link_in_the_place_of_the_folder_leads_nowhere() {
        let place = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        std::fs::write(other.path().join(OWN), "another's").unwrap();
        let authority = Authority::new(place.path(), &[]).unwrap();
        let folder = authority.folder().to_owned();
        assert!(folder.join(ALL).is_file());
        std::fs::rename(&folder, place.path().join("moved")).unwrap();
        std::os::unix::fs::symlink(other.path(), &folder).unwrap();
        drop(authority);
        assert_eq!(std::fs::read_to_string(other.path().join(OWN)).unwrap(), "another's");
        let left: Vec<_> = place.path().join("moved").read_dir().unwrap().collect();
        assert!(left.is_empty() && !folder.exists());
    }
}

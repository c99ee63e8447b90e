//! Requests that are looked into, over real TLS. Names are resolved by a table, and every server is on loopback.
#![expect(clippy::expect_used, reason = "a panic is a test's report, in its helpers too")]

#[path = "inspect/attacks.rs"]
mod attacks;

#[path = "inspect/lenience.rs"]
mod lenience;

#[path = "inspect/metering.rs"]
mod metering;

use base64::Engine;
use egress::{Access, Hosts, Metered, Outside, Proxy, Reports, Rule, Secret, Secrets};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig, crypto};
use tokio_rustls::{TlsAcceptor, TlsConnector};

const VALUE: &str = "sk-test-REALREALREALREALREALREAL";
const OTHER: &str = "ghp_REALREALREALREALREALREALREAL";

/// A server of TLS, or without, that answers each request by a function of it.
struct Server {
    port: u16,
    seen: Arc<Mutex<Vec<String>>>,
}

type Answer = fn(&str) -> String;

/// The request itself.
fn mirror(request: &str) -> String {
    let length = request.len();
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nX-Back: {}\r\n\r\n{request}", key_in(request))
}

fn key_in(request: &str) -> &str {
    let line = request.lines().find(|line| line.starts_with("x-api-key: ")).unwrap_or_default();
    line.strip_prefix("x-api-key: ").unwrap_or("none")
}

impl Server {
    fn start(tls: Option<Arc<ServerConfig>>, answer: Answer) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        listener.set_nonblocking(true).expect("not waiting");
        let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let all = seen.clone();
        ground::task::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, all) = (tls.clone(), all.clone());
                ground::task::spawn(async move {
                    match tls {
                        Some(tls) => {
                            if let Ok(stream) = TlsAcceptor::from(tls).accept(stream).await {
                                serve(stream, answer, all).await;
                            }
                        }
                        None => serve(stream, answer, all).await,
                    }
                });
            }
        });
        Server { port, seen }
    }

    fn seen(&self) -> String {
        self.seen.lock().expect("unpoisoned").join("\n")
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: Answer,
    all: Arc<Mutex<Vec<String>>>,
) {
    while let Some(request) = message(&mut stream).await {
        all.lock().expect("unpoisoned").push(request.clone());
        let answer = answer(&request);
        // The end of the connection is the end of such an answer.
        if stream.write_all(answer.as_bytes()).await.is_err() || answer.starts_with("HTTP/1.0") {
            let _ = stream.shutdown().await;
            return;
        }
    }
}

/// One message of HTTP, with the body that its length tells. `None`: the end.
async fn message(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| {
                    line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned)
                })
                .map_or(0, |length| length.parse().expect("a length"));
            if body.len() >= length && !head.contains("chunked") || body.ends_with("0\r\n\r\n") {
                return Some(text);
            }
        }
        let mut part = [0; 4096];
        match stream.read(&mut part).await {
            Ok(0) | Err(_) => {
                return (!bytes.is_empty()).then(|| String::from_utf8_lossy(&bytes).into_owned());
            }
            Ok(length) => bytes.extend_from_slice(&part[..length]),
        }
    }
}

/// A certificate for the hosts of the tests, and the trust in it.
fn outside() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let (server, der) = server_of(IsCa::NoCa);
    (server, client(&[der]))
}

fn server_of(is_ca: IsCa) -> (Arc<ServerConfig>, CertificateDer<'static>) {
    let names = ["a.example", "b.example", "localhost"].map(str::to_owned).to_vec();
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(names).expect("names");
    params.is_ca = is_ca;
    let certificate = params.self_signed(&key).expect("a certificate");
    let der = certificate.der().clone();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(crypto::ring::default_provider());
    let server = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![der.clone()], key)
        .expect("a server");
    (Arc::new(server), der)
}

fn client(roots: &[CertificateDer<'static>]) -> Arc<ClientConfig> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(roots.iter().cloned());
    let provider = Arc::new(crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(store)
        .with_no_client_auth();
    Arc::new(config)
}

struct Ground {
    proxy: Proxy,
    refused: Arc<Mutex<Vec<String>>>,
    metered: watch::Receiver<Metered>,
    cut: watch::Sender<bool>,
    authorization: String,
}

impl Ground {
    /// The secret "KEY" is for "a.example", "TOKEN" for "b.example"; "c.example" is metered, and "d.example" listed.
    fn new(ports: [u16; 2], tls: Arc<ClientConfig>) -> Ground {
        let [one, other] = ports;
        let rule = |text: String| Rule::parse(&text).expect("a rule");
        let random = "0123456789abcdefghijklmnopqrstuvwxyz";
        let secret = |name: &str, value: &str, host: String| {
            Secret::new(name, value, None, vec![rule(host)], random).expect("a secret")
        };
        let secrets = Secrets::new(vec![
            secret("KEY", VALUE, format!("a.example:{one}")),
            secret("TOKEN", OTHER, format!("b.example:{one}")),
        ])
        .expect("secrets");
        let listed = [one, other].into_iter().flat_map(|port| {
            ["127.0.0.1", "c.example", "d.example"].map(|name| rule(format!("{name}:{port}")))
        });
        let metered =
            Hosts::new(vec![rule(format!("c.example:{other}")), rule(format!("127.0.0.1:{other}"))]);
        let access = Access::new(Hosts::new(listed.collect()), secrets, metered);
        let (refused, (sums, seen), (cut, cutting)) =
            (Arc::new(Mutex::new(Vec::new())), watch::channel(Metered::default()), watch::channel(false));
        let all = refused.clone();
        let reports = Reports {
            refused: Arc::new(move |what| all.lock().expect("unpoisoned").push(what)),
            is_own: Arc::new(|_| false),
            asks: Arc::new(|_| Box::new(|| {})),
            metered: Arc::new(move |sum| drop(sums.send_replace(sum))),
            cut: cutting,
        };
        let resolve = Arc::new(|_: &str| Ok(vec![Ipv4Addr::LOCALHOST.into()]));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let outside = Outside { resolve, tls: Some(tls), ..Outside::default() };
        let proxy = Proxy::start_with(listener, access, reports, outside).expect("a proxy");
        let url = variable(&proxy, "HTTPS_PROXY");
        let user = url.strip_prefix("http://").and_then(|url| url.split_once('@')).expect("a credential").0;
        let encoded = base64::engine::general_purpose::STANDARD.encode(user);
        let authorization = format!("Proxy-Authorization: Basic {encoded}");
        Ground { proxy, refused, metered: seen, cut, authorization }
    }

    fn variable(&self, name: &str) -> String {
        variable(&self.proxy, name)
    }

    /// A tunnel through which TLS for the host is spoken, by a client that trusts what its environment names.
    async fn tls(
        &self,
        host: &str,
        named: &str,
        port: u16,
    ) -> std::io::Result<impl AsyncRead + AsyncWrite + Unpin + use<>> {
        let stream = self.tunnel(host, port).await;
        let file = self.variable("NODE_EXTRA_CA_CERTS");
        let own: Vec<_> = CertificateDer::pem_file_iter(file).expect("a file").flatten().collect();
        let name = ServerName::try_from(named.to_owned()).expect("a name");
        TlsConnector::from(client(&own)).connect(name, stream).await
    }

    async fn tunnel(&self, host: &str, port: u16) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.proxy.port())).await.expect("a connection");
        let request = format!("CONNECT {host}:{port} HTTP/1.1\r\n{}\r\n\r\n", self.authorization);
        stream.write_all(request.as_bytes()).await.expect("sent");
        let answer = message(&mut stream).await.expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        stream
    }

    async fn ask(&self, host: &str, port: u16, request: &str) -> String {
        let mut stream = self.tls(host, host, port).await.expect("TLS");
        stream.write_all(request.as_bytes()).await.expect("sent");
        message(&mut stream).await.expect("an answer")
    }

    fn refused(&self) -> Vec<String> {
        self.refused.lock().expect("unpoisoned").clone()
    }
}

fn variable(proxy: &Proxy, name: &str) -> String {
    let found = proxy.environment().into_iter().find(|(known, _)| known == name);
    found.expect("a variable").1
}

fn get(host: &str, port: u16, path: &str, header: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\n{header}\r\n\r\n")
}

#[tokio::test]
async fn a_connection_that_the_server_ended_before_the_first_request_is_opened_anew() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (ended, end) = tokio::sync::oneshot::channel();
    ground::task::spawn(async move {
        let (mut impatient, _) = listener.accept().await.expect("a client");
        impatient.shutdown().await.expect("an end");
        ended.send(()).expect("the test waits");
        let (stream, _) = listener.accept().await.expect("a client");
        serve(stream, mirror, Arc::default()).await;
    });
    let ground = Ground::new([1, port], outside().1);
    let mut tunnel = ground.tunnel("c.example", port).await;
    end.await.expect("ended");
    tunnel.write_all(get("c.example", port, "/late", "A: b").as_bytes()).await.expect("sent");
    let answer = message(&mut tunnel).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("GET /late"), "{answer}");
}

#[tokio::test]
async fn a_secret_goes_to_its_host_and_does_not_come_back() {
    let (tls, trust) = outside();
    let server = Server::start(Some(tls), mirror);
    let ground = Ground::new([server.port, server.port], trust);
    let placeholder = ground.variable("KEY");
    assert!(placeholder.starts_with("sk-") && placeholder.len() == VALUE.len() && placeholder != VALUE);
    let answer = ground
        .ask(
            "a.example",
            server.port,
            &get("a.example", server.port, "/v1", &format!("x-api-key: {placeholder}")),
        )
        .await;
    assert!(server.seen().contains(&format!("x-api-key: {VALUE}")), "{}", server.seen());
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // The server repeats it, in a header and in the body.
    assert!(!answer.contains(VALUE) && answer.matches(&placeholder).count() == 2, "{answer}");
    assert!(ground.refused().is_empty(), "{:?}", ground.refused());
}

#[tokio::test]
async fn one_connection_takes_many_requests() {
    let (tls, trust) = outside();
    let server = Server::start(Some(tls), mirror);
    let ground = Ground::new([server.port, server.port], trust);
    let mut stream = ground.tls("a.example", "a.example", server.port).await.expect("TLS");
    for number in 0..3 {
        let body = "x".repeat(100_000);
        let request = format!(
            "POST /{number} HTTP/1.1\r\nHost: a.example:{}\r\nContent-Length: {}\r\n\r\n{body}",
            server.port,
            body.len()
        );
        stream.write_all(request.as_bytes()).await.expect("sent");
        let answer = message(&mut stream).await.expect("an answer");
        assert!(
            answer.contains(&format!("POST /{number} HTTP/1.1")) && answer.ends_with(&body),
            "{}",
            &answer[..200]
        );
    }
}

#[tokio::test]
async fn a_placeholder_goes_to_no_other_host() {
    let (tls, trust) = outside();
    let (server, plain) = (Server::start(Some(tls), mirror), Server::start(None, mirror));
    let ground = Ground::new([server.port, plain.port], trust);
    let key = ground.variable("KEY");
    let basic = base64::engine::general_purpose::STANDARD.encode(format!("user:{key}"));
    let port = server.port;
    let body = format!("{}{key}{}", "x".repeat(5000), "y".repeat(5000));
    let post = |host: &str, target: &str, port: u16, auth: &str| {
        let length = body.len();
        format!(
            "POST {target} HTTP/1.1\r\nHost: {host}:{port}\r\n{auth}Content-Length: {length}\r\n\r\n{body}"
        )
    };
    for request in [
        get("b.example", port, "/", &format!("x-api-key: {key}")),
        get("b.example", port, "/", &format!("Authorization: Basic {basic}")),
        get("b.example", port, &format!("/?q={key}"), "a: b"),
        post("b.example", "/", port, ""),
    ] {
        let answer = ground.ask("b.example", port, &request).await;
        assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("placeholder of"), "{answer}");
    }
    // Without TLS, every host is looked at.
    let auth = format!("{}\r\n", ground.authorization);
    for request in [
        get("d.example", plain.port, &format!("http://d.example:{}/?q={key}", plain.port), auth.trim()),
        post("d.example", &format!("http://d.example:{}/", plain.port), plain.port, &auth),
    ] {
        let mut stream = TcpStream::connect(("127.0.0.1", ground.proxy.port())).await.expect("a connection");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let answer = message(&mut stream).await.expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    }
    for seen in [server.seen(), plain.seen()] {
        assert!(!seen.contains(&key) && !seen.contains(VALUE), "{seen}");
    }
    let refused = ground.refused();
    assert_eq!(refused.len(), 6, "{refused:?}");
    assert!(refused[0].starts_with(&format!("b.example:{port}: the placeholder of KEY")), "{refused:?}");
    // In the body for its own host it is no more than a word: a model is told what a program printed.
    let own = ground.ask("a.example", port, &post("a.example", "/", port, "")).await;
    assert!(own.starts_with("HTTP/1.1 200"), "{own}");
    assert!(server.seen().contains(&key) && !server.seen().contains(VALUE));
}

#[tokio::test]
async fn another_name_in_tls_or_in_the_host_header_is_refused() {
    let (tls, trust) = outside();
    let server = Server::start(Some(tls), mirror);
    let ground = Ground::new([server.port, server.port], trust);
    assert!(ground.tls("a.example", "b.example", server.port).await.is_err());
    for host in [format!("b.example:{}", server.port), "a.example".to_owned(), "a.example:1".to_owned()] {
        let request =
            format!("GET / HTTP/1.1\r\nHost: {host}\r\nx-api-key: {}\r\n\r\n", ground.variable("KEY"));
        let answer = ground.ask("a.example", server.port, &request).await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{host}: {answer}");
    }
    let absolute = "GET http://b.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n".to_owned();
    let answer = ground.ask("a.example", server.port, &absolute).await;
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    let socket = get("a.example", server.port, "/", "Connection: upgrade\r\nUpgrade: websocket");
    let answer = ground.ask("a.example", server.port, &socket).await;
    assert!(answer.starts_with("HTTP/1.1 426"), "{answer}");
    assert_eq!(server.seen(), "");
    assert_eq!(ground.refused().len(), 5, "{:?}", ground.refused());
}

#[tokio::test]
async fn a_host_without_a_trusted_certificate_gets_nothing() {
    let ((tls, _), (_, other)) = (outside(), outside());
    let server = Server::start(Some(tls), mirror);
    let ground = Ground::new([server.port, server.port], other);
    let request = get("a.example", server.port, "/", &format!("x-api-key: {}", ground.variable("KEY")));
    let answer = ground.ask("a.example", server.port, &request).await;
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    assert_eq!(server.seen(), "");
}

#[tokio::test]
async fn a_certificate_that_is_itself_trusted_is_taken_for_its_names() {
    // As `openssl req -x509` makes it.
    let (tls, own) = server_of(IsCa::Ca(BasicConstraints::Unconstrained));
    let (other, _) = server_of(IsCa::Ca(BasicConstraints::Unconstrained));
    let trust = Arc::new(wires::http::tls_config_trusting(vec![own]).expect("a configuration"));
    for (tls, host, expected) in [
        (tls.clone(), "a.example", "HTTP/1.1 200"),
        (tls, "c.example", "HTTP/1.1 502"),
        (other, "a.example", "HTTP/1.1 502"),
    ] {
        let server = Server::start(Some(tls), mirror);
        let ground = Ground::new([server.port, server.port], trust.clone());
        let answer = ground.ask(host, server.port, &get(host, server.port, "/", "A: b")).await;
        assert!(answer.starts_with(expected), "{host}: {answer}");
    }
}

#[tokio::test]
async fn files_of_the_authority_are_the_program_s_alone_and_go_with_it() {
    use std::os::unix::fs::PermissionsExt;
    let (_, trust) = outside();
    let ground = Ground::new([1, 2], trust);
    let folder = ground.proxy.folder().expect("a folder").to_owned();
    assert_eq!(folder.metadata().expect("a folder").permissions().mode() & 0o777, 0o700);
    for file in std::fs::read_dir(&folder).expect("a folder").flatten() {
        let text = std::fs::read_to_string(file.path()).expect("a file");
        assert!(text.contains("BEGIN CERTIFICATE") && !text.contains("PRIVATE KEY"), "{:?}", file.path());
    }
    drop(ground);
    // Its tasks end when they are next scheduled.
    while folder.exists() {
        tokio::task::yield_now().await;
    }
}

//! The proxy over real sockets. Names are resolved by a table, and every server is on loopback.
#![expect(clippy::expect_used, reason = "a panic is a test's report, in its helpers too")]

use egress::{Access, Hosts, Outside, Proxy, Reports, Rule, Secrets};
use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

struct Ground {
    proxy: Proxy,
    refused: Arc<Mutex<Vec<String>>>,
    credential: String,
}

const PRIVATE: Ipv4Addr = Ipv4Addr::new(10, 9, 8, 7);

/// "private.example" leads into a private network, "mixed.example" to both, "nowhere.example" nowhere, and every other name to loopback.
fn table(name: &str) -> io::Result<Vec<IpAddr>> {
    Ok(match name {
        "private.example" => vec![PRIVATE.into()],
        "mixed.example" => vec![Ipv4Addr::LOCALHOST.into(), PRIVATE.into()],
        "nowhere.example" => return Err(io::ErrorKind::NotFound.into()),
        _ => vec![Ipv4Addr::LOCALHOST.into()],
    })
}

impl Ground {
    fn new(rules: &[String]) -> Ground {
        Ground::where_own(rules, false)
    }

    fn where_own(rules: &[String], is_own: bool) -> Ground {
        let refused = Arc::new(Mutex::new(Vec::new()));
        let seen = refused.clone();
        let hosts = Hosts::new(rules.iter().map(|rule| Rule::parse(rule).expect("a rule")).collect());
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let reports = Reports {
            refused: Arc::new(move |what| seen.lock().expect("unpoisoned").push(what)),
            is_own: Arc::new(move |_| is_own),
            asks: Arc::new(|_| Box::new(|| {})),
            metered: Arc::new(|_| {}),
            cut: tokio::sync::watch::channel(false).1,
        };
        let access = Access::new(hosts, Secrets::default(), Hosts::default());
        let outside = Outside { resolve: Arc::new(table), ..Outside::default() };
        let proxy = Proxy::start_with(listener, access, reports, outside).expect("a proxy");
        let variables = proxy.environment();
        let url = &variables.iter().find(|(name, _)| name == "HTTPS_PROXY").expect("a variable").1;
        let credential =
            url.strip_prefix("http://").and_then(|url| url.split_once('@')).expect("a credential").0;
        let credential = credential.to_owned();
        Ground { proxy, refused, credential }
    }

    /// Everything that the proxy answers to these bytes, with the credential in the place of `{auth}`.
    async fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.proxy.port())).await.expect("a connection");
        stream.write_all(self.with_credential(request).as_bytes()).await.expect("sent");
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        answer
    }

    fn with_credential(&self, request: &str) -> String {
        use base64::Engine;
        let encoded = base64::engine::general_purpose::STANDARD.encode(&self.credential);
        request.replace("{auth}", &format!("Proxy-Authorization: Basic {encoded}"))
    }

    fn refused(&self) -> Vec<String> {
        self.refused.lock().expect("unpoisoned").clone()
    }
}

/// Answers each request with the request itself.
fn mirror() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    listener.set_nonblocking(true).expect("not waiting");
    let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
    ground::task::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            ground::task::spawn(async move {
                let mut bytes = vec![0; 65536];
                let mut length = 0;
                while !bytes[..length].windows(4).any(|end| end == b"\r\n\r\n") {
                    match stream.read(&mut bytes[length..]).await {
                        Ok(0) | Err(_) => return,
                        Ok(more) => length += more,
                    }
                }
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nX-Own: 1\r\nConnection: close\r\n\r\n"
                );
                let _ = stream.write_all(head.as_bytes()).await;
                let _ = stream.write_all(&bytes[..length]).await;
            });
        }
    });
    port
}

#[tokio::test]
async fn a_request_without_tls_is_passed_on_without_the_credential() {
    let port = mirror();
    let ground = Ground::new(&[format!("a.example:{port}"), format!("127.0.0.1:{port}")]);
    let answer = ground
        .ask(&format!(
            "GET http://a.example:{port}/path?q=1 HTTP/1.1\r\nHost: a.example:{port}\r\n{{auth}}\r\nAuthorization: Bearer own\r\nConnection: close\r\n\r\n"
        ))
        .await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("GET /path?q=1 HTTP/1.1"), "{answer}");
    let lower = answer.to_ascii_lowercase();
    assert!(
        lower.contains(&format!("host: a.example:{port}")) && lower.contains("authorization: bearer own")
    );
    assert!(!lower.contains("proxy-authorization"), "{answer}");
    assert!(ground.refused().is_empty());
}

#[tokio::test]
async fn a_tunnel_carries_bytes_to_a_host_that_is_listed() {
    let port = mirror();
    let ground = Ground::new(&[format!("*.example:{port}").replace("*.", "a."), format!("127.0.0.1:{port}")]);
    let answer = ground
        .ask(&format!("CONNECT a.example:{port} HTTP/1.1\r\nHost: a.example:{port}\r\n{{auth}}\r\n\r\nGET /inside HTTP/1.1\r\n\r\n"))
        .await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("GET /inside HTTP/1.1"), "{answer}");
}

#[tokio::test]
async fn tunnels_are_counted_as_long_as_they_last() {
    // It accepts, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let ground = Ground::new(&[format!("a.example:{port}"), format!("127.0.0.1:{port}")]);
    let server = std::thread::spawn(move || {
        let accepted: Vec<_> = silent.incoming().take(egress::MOST_CONNECTIONS + 1).collect();
        accepted.len()
    });
    let open = async || {
        let mut stream = TcpStream::connect(("127.0.0.1", ground.proxy.port())).await.expect("a connection");
        let request = ground.with_credential(&format!(
            "CONNECT a.example:{port} HTTP/1.1\r\nHost: a.example:{port}\r\n{{auth}}\r\n\r\n"
        ));
        stream.write_all(request.as_bytes()).await.expect("sent");
        stream
    };
    let opened = async |stream: &mut TcpStream| {
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.expect("an answer");
        assert_eq!(&answer, b"HTTP/1.1 200");
    };
    let mut tunnels = Vec::new();
    for _ in 0..egress::MOST_CONNECTIONS {
        let mut tunnel = open().await;
        opened(&mut tunnel).await;
        tunnels.push(tunnel);
    }
    let mut late = open().await;
    let early = tokio::time::timeout(std::time::Duration::from_millis(200), late.readable()).await;
    assert!(early.is_err(), "one more than there are places for");
    tunnels.pop();
    opened(&mut late).await;
    assert_eq!(server.join().expect("no panic"), egress::MOST_CONNECTIONS + 1);
}

#[tokio::test]
async fn without_its_credential_nobody_uses_it() {
    let port = mirror();
    let ground = Ground::new(&[format!("a.example:{port}"), format!("127.0.0.1:{port}")]);
    for line in [
        "X: 1",
        "Proxy-Authorization: Basic c2hlZXBkb2c6eA==",
        "Proxy-Authorization: Bearer x",
        "Proxy-Authorization:",
    ] {
        for request in ["GET http://a.example:PORT/ HTTP/1.1", "CONNECT a.example:PORT HTTP/1.1"] {
            let request = request.replace("PORT", &port.to_string());
            let answer = ground
                .ask(&format!("{request}\r\nHost: a.example:{port}\r\n{line}\r\nConnection: close\r\n\r\n"))
                .await;
            assert!(answer.starts_with("HTTP/1.1 407"), "{line}: {answer}");
        }
    }
}

#[tokio::test]
async fn what_is_refused_is_told_and_reported() {
    let port = mirror();
    let listed = ["a.example", "private.example", "mixed.example", "nowhere.example"];
    let rules: Vec<String> = listed.iter().map(|name| format!("{name}:{port}")).collect();
    let ground = Ground::new(&rules);
    for (target, status, reason) in [
        ("b.example", 403, "is not in `sandbox.network.hosts`"),
        // A listed name whose owner leads it elsewhere.
        ("a.example", 403, "a loopback address"),
        ("private.example", 403, "a private address"),
        ("mixed.example", 403, "address"),
        ("127.0.0.1", 403, "is not in"),
        ("169.254.169.254", 403, "is not in"),
        ("[::1]", 403, "is not in"),
        ("nowhere.example", 502, "has no address"),
    ] {
        for request in ["GET http://TARGET/ HTTP/1.1", "CONNECT TARGET HTTP/1.1"] {
            let target = format!("{target}:{port}");
            let request = request.replace("TARGET", &target);
            let answer = ground
                .ask(&format!("{request}\r\nHost: {target}\r\n{{auth}}\r\nConnection: close\r\n\r\n"))
                .await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request}: {answer}");
            let body = answer.split_once("\r\n\r\n").expect("a body").1;
            assert!(
                body.starts_with("sheepdog: ") && body.contains(reason) && body.ends_with('\n'),
                "{body}"
            );
            let is_reported = ground.refused().iter().any(|what| what.starts_with(&target));
            assert_eq!(is_reported, status == 403, "{target}: {:?}", ground.refused());
        }
    }
}

#[tokio::test]
async fn another_host_behind_an_allowed_one_is_refused() {
    let port = mirror();
    let ground = Ground::new(&[format!("a.example:{port}"), format!("127.0.0.1:{port}")]);
    for host in [
        "b.example".to_owned(),
        format!("b.example:{port}"),
        "a.example".to_owned(),
        format!("a.example:{port}\r\nHost: b.example"),
    ] {
        let answer = ground
            .ask(&format!("GET http://a.example:{port}/ HTTP/1.1\r\nHost: {host}\r\n{{auth}}\r\nConnection: close\r\n\r\n"))
            .await;
        assert!(answer.starts_with("HTTP/1.1 403") || answer.starts_with("HTTP/1.1 400"), "{host}: {answer}");
    }
    assert!(ground.refused().iter().any(|what| what.contains("Host header")));
}

#[tokio::test]
async fn tls_for_another_host_is_cut_off() {
    let port = mirror();
    let ground = Ground::new(&[format!("a.example:{port}"), format!("127.0.0.1:{port}")]);
    let mut stream = TcpStream::connect(("127.0.0.1", ground.proxy.port())).await.expect("a connection");
    let request = ground.with_credential(&format!("CONNECT a.example:{port} HTTP/1.1\r\n{{auth}}\r\n\r\n"));
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut head = [0; 512];
    let length = stream.read(&mut head).await.expect("an answer");
    assert!(head[..length].starts_with(b"HTTP/1.1 200"));
    // A first message for "b.example".
    let name = b"b.example";
    let extension = [&[0, 0, 0, 14, 0, 12, 0, 0, 9][..], name].concat();
    let body =
        [&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0, 0, extension.len() as u8], &extension].concat();
    let message = [&[1, 0, 0, body.len() as u8][..], &body].concat();
    let record = [&[22, 3, 1, 0, message.len() as u8][..], &message].concat();
    stream.write_all(&record).await.expect("sent");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.expect("the end");
    // The alert "access denied".
    assert_eq!(rest, [21, 3, 3, 0, 2, 2, 49]);
    assert_eq!(ground.refused(), [format!("a.example:{port}: its TLS asks for \"b.example\"")]);
}

#[tokio::test]
async fn what_is_no_request_to_a_proxy_is_wrong() {
    let ground = Ground::new(&[]);
    for request in [
        "GET / HTTP/1.1",
        "GET https://a.example/ HTTP/1.1",
        "CONNECT a.example HTTP/1.1",
        "CONNECT 127.1:80 HTTP/1.1",
    ] {
        let answer = ground
            .ask(&format!("{request}\r\nHost: a.example\r\n{{auth}}\r\nConnection: close\r\n\r\n"))
            .await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{request}: {answer}");
    }
}

#[tokio::test]
async fn it_ends_with_all_its_connections_when_it_is_dropped() {
    let port = mirror();
    let ground = Ground::new(&[format!("a.example:{port}"), format!("127.0.0.1:{port}")]);
    let address = ("127.0.0.1", ground.proxy.port());
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let request = ground.with_credential(&format!("CONNECT a.example:{port} HTTP/1.1\r\n{{auth}}\r\n\r\n"));
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut head = [0; 512];
    assert!(stream.read(&mut head).await.expect("an answer") > 0);
    drop(ground);
    let end = stream.read(&mut head).await;
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    // Its task closes the listener when it is next scheduled.
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_connection_that_is_known_to_be_the_program_s_needs_no_credential() {
    let port = mirror();
    let request = format!(
        "GET http://a.example:{port}/ HTTP/1.1\r\nHost: a.example:{port}\r\nConnection: close\r\n\r\n"
    );
    for (is_own, expected) in [(true, "HTTP/1.1 200"), (false, "HTTP/1.1 407")] {
        let ground = Ground::where_own(&[format!("a.example:{port}"), format!("127.0.0.1:{port}")], is_own);
        let answer = ground.ask(&request).await;
        assert!(answer.starts_with(expected), "{answer}");
    }
}

#[tokio::test]
async fn a_listed_server_of_this_machine_is_reached_by_each_of_its_names() {
    let port = mirror();
    let ground = Ground::new(&[format!("localhost:{port}")]);
    for host in ["localhost", "127.0.0.1", "0.0.0.0", "a.localhost", "ip6-localhost"] {
        let request = format!(
            "GET http://{host}:{port}/ HTTP/1.1\r\nHost: {host}:{port}\r\n{{auth}}\r\nConnection: close\r\n\r\n"
        );
        let answer = ground.ask(&request).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{host}: {answer}");
    }
    assert!(ground.refused().is_empty());
}

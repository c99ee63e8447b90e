//! A tunnel: bytes in both directions, after the first message was looked at.

use crate::hello::{self, Hello};
use crate::host::{Host, Way};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// For a client to say whom it wants.
const HELLO_WITHIN: Duration = Duration::from_secs(30);
/// The alert "access denied" of TLS: fatal.
const DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];

/// Refuses a client of TLS, which is told by its own library.
pub(crate) async fn deny(client: &mut (impl AsyncWrite + Unpin)) {
    let _ = client.write_all(&DENIED).await;
    let _ = client.shutdown().await;
}

/// Why a tunnel was not opened, in words. `None`: the client was gone, or silent.
pub(crate) type Refusal = Option<String>;

/// Copies until both sides have ended.
pub(crate) async fn run(
    mut client: impl AsyncRead + AsyncWrite + Unpin,
    mut server: TcpStream,
    host: &Host,
    port: u16,
    way: Way,
) -> Result<(), Refusal> {
    let first = match timeout(HELLO_WITHIN, first_bytes(&mut client, &server, way)).await {
        Ok(Ok(first)) => first,
        Ok(Err(_)) | Err(_) => return Err(None),
    };
    if let Err(problem) = check(&first, host, way) {
        deny(&mut client).await;
        return Err(Some(format!("{host}:{port}: {problem}")));
    }
    // An end of either side is the end of the tunnel, and no fault.
    if server.write_all(&first).await.is_ok() {
        let _ = copy_bidirectional(&mut client, &mut server).await;
    }
    Ok(())
}

/// Reads until the client can be judged. Returns nothing if the server speaks first.
async fn first_bytes(
    client: &mut (impl AsyncRead + Unpin),
    server: &TcpStream,
    way: Way,
) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        let server_speaks = async {
            match way {
                Way::Any => server.readable().await,
                Way::Secure => std::future::pending().await,
            }
        };
        let length = tokio::select! {
            biased;
            length = client.read(&mut part) => length?,
            ready = server_speaks, if bytes.is_empty() => {
                ready?;
                return Ok(bytes);
            }
        };
        bytes.extend_from_slice(part.get(..length).unwrap_or_default());
        if length == 0 || bytes.len() > hello::MAX_BYTES || hello::read(&bytes) != Hello::Unfinished {
            return Ok(bytes);
        }
    }
}

/// Whether the first bytes are for this host. PURE.
fn check(first: &[u8], host: &Host, way: Way) -> Result<(), String> {
    match hello::read(first) {
        Hello::Tls(name) => host.check_tls(name.as_deref()),
        Hello::Foreign | Hello::Unfinished if way == Way::Any => Ok(()),
        Hello::Foreign | Hello::Unfinished => Err("a tunnel to this port carries TLS only".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hello::tests::hello_for;

    #[test]
    fn the_first_message_must_be_for_the_host_that_was_asked_for() {
        let host = Host::parse("a.example").unwrap();
        let address = Host::parse("10.0.0.1").unwrap();
        let plain = b"GET / HTTP/1.1\r\nHost: b.example\r\n\r\n".to_vec();
        for (first, host, way, expected) in [
            (hello_for("a.example"), &host, Way::Secure, true),
            (hello_for("A.Example"), &host, Way::Secure, true),
            (hello_for("a.example."), &host, Way::Secure, true),
            (hello_for("10.0.0.1"), &address, Way::Secure, true),
            (hello_for("10.0.0.2"), &address, Way::Secure, false),
            (hello_for("b.example"), &host, Way::Secure, false),
            (hello_for("b.example"), &host, Way::Any, false),
            (hello_for("a.example"), &address, Way::Secure, false),
            (hello_for(""), &host, Way::Secure, false),
            (plain.clone(), &host, Way::Secure, false),
            (plain, &host, Way::Any, true),
            (Vec::new(), &host, Way::Secure, false),
            (Vec::new(), &host, Way::Any, true),
        ] {
            assert_eq!(check(&first, host, way).is_ok(), expected, "{first:?} {host} {way:?}");
        }
    }
}

use super::*;

#[test]
fn the_target_is_encoded_and_nothing_else_is() {
    for (raw, expected) in [
        (
            "GET /a?q=\"<x>`\" HTTP/1.1\r\nA: <\">\r\n\r\n",
            "GET /a?q=%22%3Cx%3E%60%22 HTTP/1.1\r\nA: <\">\r\n\r\n",
        ),
        ("\r\nGET / HTTP/1.1\n\n<rest>", "\r\nGET / HTTP/1.1\n\n"),
        ("G<T / HTTP/1.1\r\n\r\n", "G<T / HTTP/1.1\r\n\r\n"),
    ] {
        // Whatever the pieces.
        for size in [1, 3, 1000] {
            let mut state =
                State { part: BEGINNING, is_called: true, is_open: false, interim: Vec::new(), reader: None };
            let mut ready = Vec::new();
            for piece in raw.as_bytes().chunks(size) {
                if take_head(&mut state, piece, &mut ready) < piece.len() || ready.len() >= expected.len() {
                    break;
                }
            }
            assert_eq!(String::from_utf8(ready).unwrap(), expected, "{size}");
            assert!(!state.is_called);
        }
    }
}

#[test]
fn answers_of_the_library_alone_are_replaced() {
    let own = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\ndate: x\r\n\r\n";
    assert_eq!(unreadable(own).unwrap().0, "400 Bad Request");
    for other in [
        &b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"[..],
        b"HTTP/1.1 400 Bad Request\r\ncontent-length: 5\r\n\r\nwords",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"",
    ] {
        assert!(unreadable(other).is_none());
    }
}

#[tokio::test]
async fn interim_answers_that_nobody_reads_take_no_room() {
    let end = "127.0.0.1:1".parse().unwrap();
    let caller = Caller::new(Ends { own: end, peer: end }, Box::new(|_| {}));
    let (own, _peer) = tokio::io::duplex(16);
    let mut stream = CallerStream::new(caller.clone(), own);
    for _ in 0..MOST_INTERIM {
        caller.pass_interim(StatusCode::EARLY_HINTS, &HeaderMap::new());
        let _ = stream.poll_first(&mut Context::from_waker(Waker::noop()));
    }
    let held = lock(&caller.state).interim.len() + stream.first.len();
    assert!((1..=2 * MOST_INTERIM).contains(&held), "{held}");
}

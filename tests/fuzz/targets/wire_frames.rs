//! What peers say.

use super::input::Input;
use ground::json::well_formed;
use runtime::wire::client_message::ClientMessage;
use runtime::wire::frame::{Body, parse_client_frame, parse_runtime_frame};
use runtime::wire::runtime_message::RuntimeMessage;
use serde_json::Value;
use wires::jsonrpc::{Found, Message, Wire, parse, reply, request};

/// However the bytes are cut, the same messages are found between the same noise.
pub(super) fn framing(bytes: &[u8]) {
    let mut input = Input(bytes);
    let wire = [Wire::HEADERS, Wire::LINES][input.below(2)];
    let wire = Wire { max_body: 1 + input.below(200), ..wire };
    let (whole, pieces) = input.pieces();
    let read = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let mut decoder = wire.decoder();
        let mut all: Vec<Found> = Vec::new();
        for piece in pieces {
            decoder.push(piece);
            loop {
                let found = match decoder.next_found() {
                    Ok(Some(Found::Body(body))) if parse(&body).is_none() => decoder.reject(body),
                    Ok(Some(found)) => found,
                    Ok(None) => break,
                    Err(broken) => return (all, Some(std::mem::discriminant(&broken))),
                };
                match (all.last_mut(), found) {
                    // Noise is told when it is seen.
                    (Some(Found::Garbage(before)), Found::Garbage(bytes)) => *before += bytes,
                    (_, found) => all.push(found),
                }
            }
        }
        // The last noise may still be the beginning of a header.
        if matches!(all.last(), Some(Found::Garbage(_))) {
            all.pop();
        }
        (all, None)
    };
    assert_eq!(read(&mut std::iter::once(whole)), read(&mut { pieces }));
}

/// A message is what a parser that builds everything takes it for, and is read back from what is written.
pub(super) fn message(bytes: &[u8]) {
    if let Some(text) = well_formed(bytes) {
        assert_eq!(well_formed(text.as_bytes()), Some(text));
    }
    let Some(message) = parse(bytes) else { return };
    let value = ground::json::read_own::<Value>(bytes);
    let named = |method: &str| value.as_ref().is_ok_and(|value| value["method"] == *method);
    match message {
        Message::Notification { method, params } => {
            assert!(
                value.is_err() || (named(&method) && value.as_ref().is_ok_and(|value| value["id"].is_null()))
            );
            assert!(ground::json::read_own::<serde::de::IgnoredAny>(params).is_ok());
        }
        Message::Request { id, method, params } => {
            assert!(value.is_err() || named(&method));
            let again = request(7, &method, params);
            assert_eq!(parse(again.as_bytes()), Some(Message::Request { id: "7", method, params }));
            assert!(ground::json::read_own::<serde::de::IgnoredAny>(id).is_ok());
        }
        Message::Reply { id, result } => {
            let again = reply(id, result.as_ref().copied());
            assert_eq!(parse(again.as_bytes()), Some(Message::Reply { id, result }));
        }
    }
}

/// What a runtime takes from a client: any text; and what was understood is what is written for it.
pub(super) fn client_frame(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(Some(frame)) = parse_client_frame(text) else { return };
    assert_eq!(frame.bytes, text.len());
    if frame.message == ClientMessage::Unknown {
        return;
    }
    let written = Body::of(&frame.message).into_frame(None, 3);
    let again = parse_client_frame(&written);
    assert!(
        again.as_ref().is_ok_and(|again| again.as_ref().is_some_and(|again| again.message == frame.message)),
        "{written} is read as {again:?}"
    );
}

/// What a client takes from a runtime, likewise.
pub(super) fn runtime_frame(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Some(frame) = parse_runtime_frame(text) else { return };
    assert_eq!(frame.bytes, text.len());
    if frame.message == RuntimeMessage::Unknown {
        return;
    }
    let written = Body::of(&frame.message).into_frame(None, 3);
    let again = parse_runtime_frame(&written);
    assert!(
        again.as_ref().is_some_and(|again| again.message == frame.message && again.seq == Some(3)),
        "{written} is read as {again:?}"
    );
}

//! Text as it comes from programs and servers.

use super::input::Input;
use ground::json::{Index, read_own};
use ground::json_filter::JsonFilter;
use ground::line::{LineFramer, lines_of, without_mark};
use ground::redaction::{Redactor, Secret};
use serde_json::Value;
use wires::http::SseParser;

/// However the bytes are cut, the lines are the same, and so is whether one was too long.
pub(super) fn lines(bytes: &[u8]) {
    let mut input = Input(bytes);
    let limit = 1 + input.below(40);
    let (whole, pieces) = input.pieces();
    let framed = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let mut framer = LineFramer::new(limit);
        let mut found: Vec<Vec<u8>> = Vec::new();
        let mut keep = |block: &[u8]| found.extend(lines_of(block).map(<[u8]>::to_vec));
        let mut pushed = Ok(());
        for piece in pieces {
            pushed = pushed.and_then(|()| framer.push(piece, &mut keep));
        }
        let ended = pushed.and_then(|()| framer.end(&mut keep));
        (found, ended)
    };
    let (found, ended) = framed(&mut std::iter::once(whole));
    assert_eq!((found.clone(), ended), framed(&mut { pieces }));
    assert!(found.iter().all(|line| line.len() <= limit));
    if ended.is_ok() {
        let lines: Vec<&[u8]> = match whole {
            [] => Vec::new(),
            whole => lines_of(whole).collect(),
        };
        assert_eq!(found, lines);
    }
    let mut framer = LineFramer::new(limit);
    let mut kept = Vec::new();
    framer.push_cut(whole, |line| {
        assert!(line.len() <= limit);
        kept.extend_from_slice(line);
    });
    kept.extend_from_slice(framer.unfinished());
    let without_ends =
        |bytes: &[u8]| bytes.iter().filter(|byte| !b"\r\n".contains(byte)).copied().collect::<Vec<u8>>();
    assert_eq!(without_ends(&kept), without_ends(whole));
}

/// The index over a line's fields agrees with a parser that builds everything.
pub(super) fn json_index(bytes: &[u8]) {
    let mut index = Index::default();
    let Some(line) = index.read(bytes) else {
        // What serde takes and is an object is taken; it looks into escapes, which an index does when asked for the text.
        let value = ground::json::read_own::<serde_json::Value>(bytes);
        let is_refused = bytes.starts_with(b"{") && value.is_ok_and(|value| value.is_object());
        assert!(!is_refused, "an object was refused");
        return;
    };
    let fields = line.fields(["type", "text", "a"]);
    let Ok(value) = ground::json::read_own::<serde_json::Value>(bytes) else {
        for field in fields {
            let _ = (field.text(), field.amount(), field.items().count(), field.build());
        }
        return;
    };
    for (field, name) in fields.into_iter().zip(["type", "text", "a"]) {
        let Some(expected) = value.get(name) else {
            assert!(!field.is_present(), "{name} is there");
            continue;
        };
        assert_eq!(field.build(), *expected, "{name}");
        assert_eq!(field.text().as_deref(), expected.as_str());
        assert_eq!(field.flag(), expected.as_bool());
        assert_eq!(field.items().count(), expected.as_array().map_or(0, Vec::len));
    }
}

/// However a stream is cut, what comes out is what a look at the whole gives.
pub(super) fn redaction(bytes: &[u8]) {
    let mut parts = bytes.splitn(4, |&byte| byte == 0);
    let (Some(text), secrets) = (parts.next(), parts) else { return };
    let secrets = secrets.filter_map(|secret| std::str::from_utf8(secret).ok()).map(Secret::new);
    let mut redactor = Redactor::new(secrets);
    let (whole, pieces) = Input(text).pieces();
    let mut out = Vec::new();
    for piece in pieces {
        out.extend(redactor.push(piece));
    }
    out.extend(redactor.flush());
    let mut at_once = redactor.push(whole);
    at_once.extend(redactor.flush());
    assert_eq!(out, at_once);
    if let Ok(whole) = std::str::from_utf8(whole) {
        assert_eq!(String::from_utf8_lossy(&out), redactor.redact(whole));
    }
}

/// However a stream of events is cut, they are the same.
pub(super) fn sse(bytes: &[u8]) {
    let (whole, pieces) = Input(bytes).pieces();
    let read = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let mut parser = SseParser::new(64);
        let mut events = Vec::new();
        for piece in pieces {
            if parser.push(piece, &mut events).is_err() {
                return (events, false);
            }
        }
        events.extend(parser.finish());
        (events, true)
    };
    assert_eq!(read(&mut std::iter::once(whole)), read(&mut { pieces }));
}

/// The filter is compared with a parser that takes no short cuts.
pub(super) fn json_filter(bytes: &[u8]) {
    let Ok(block) = std::str::from_utf8(bytes) else { return };
    let block = format!("{block}\n");
    for types in [None, Some(vec!["a", "b"]), Some(vec!["b/c", "\u{fc}"])] {
        let names = types.as_ref().map(|types| types.iter().map(|&name| name.to_owned()).collect());
        let mut selected = Vec::new();
        JsonFilter::new(names).select(block.as_bytes(), &mut selected);
        // JSON ignores any number of `\r` before the end of a line.
        let bare = |text: &[u8]| -> Vec<Vec<u8>> {
            let lines = text.split(|&byte| byte == b'\n').map(without_mark);
            lines
                .map(|line| {
                    line[..line.len() - line.iter().rev().take_while(|&&byte| byte == b'\r').count()].to_vec()
                })
                .collect()
        };
        let selected = bare(&selected);
        let mut selected = selected.iter().filter(|line| !line.is_empty()).peekable();
        for line in &bare(block.as_bytes()) {
            let is_selected = selected.next_if_eq(&line).is_some();
            // JSON.parse accepts some texts that serde refuses: halves of surrogate pairs, numbers that are too large, any depth.
            let Ok(value) = read_own::<Value>(line) else { continue };
            let is_wanted = value.is_object()
                && types.as_ref().is_none_or(|types| {
                    value.get("type").and_then(Value::as_str).is_some_and(|name| types.contains(&name))
                });
            assert_eq!(is_selected, is_wanted, "{types:?}: {}", String::from_utf8_lossy(line));
        }
        assert_eq!(selected.next(), None, "a line that was not there");
    }
}

use super::*;
use proptest::prelude::*;

fn read(pieces: &[&[u8]]) -> Result<Completion, Malformed> {
    let mut reader = BodyReader::new();
    for piece in pieces {
        reader.push(piece)?;
    }
    reader.finish()
}

const STREAM: &str = concat!(
    ": hello\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"H\u{e9}\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"ls\",\"arguments\":\"{\\\"x\\\"\"}}]}}]}\r\n\r\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\":1}\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}\n\n",
    "data: [DONE]\n\n",
);
const WHOLE: &str = "{\"choices\":[{\"message\":{\"content\":\"H\u{e9}\"},\"finish_reason\":\"stop\"}]}";

fn problem(body: &str) -> String {
    match read(&[body.as_bytes()]) {
        Err(Malformed::Wrong(problem)) => problem,
        other => panic!("{other:?}"),
    }
}

#[test]
fn tells_events_from_json_by_the_first_byte() {
    let completion = read(&[STREAM.as_bytes()]).unwrap();
    assert_eq!((completion.text.as_str(), completion.tool_calls.len()), ("H\u{e9}", 1));
    assert_eq!(read(&[b" \n", WHOLE.as_bytes()]).unwrap().text, "H\u{e9}");
}

#[test]
fn a_character_in_two_pieces_is_whole() {
    let event = |text: &str| format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n");
    let stream =
        [event("a \\ud83d"), event("\\ude00 b \\ud83d"), event(" c"), "data: [DONE]\n\n".into()].concat();
    assert_eq!(read(&[stream.as_bytes()]).unwrap().text, "a 😀 b \u{fffd} c");
    for cut in 0..stream.len() {
        let (first, second) = stream.as_bytes().split_at(cut);
        assert_eq!(read(&[first, second]).unwrap().text, "a 😀 b \u{fffd} c");
    }
    // Pieces that a listener was told stay.
    let mut reader = BodyReader::new();
    for piece in stream.split_inclusive("\n\n") {
        reader.push(piece.as_bytes()).unwrap();
        assert!("a 😀 b \u{fffd} c".starts_with(reader.text()), "{:?}", reader.text());
    }
}

#[test]
fn an_answer_without_an_end_is_none() {
    assert!(problem("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n").contains("ended before"));
    assert!(problem(&WHOLE[..30]).contains("not valid JSON"));
    assert!(problem("").contains("empty"));
    assert!(problem(": ping\n\n").contains("ended before"));
}

#[test]
fn what_is_no_completion_is_told_apart() {
    assert!(problem("<!doctype html><html>").contains("web page"));
    assert!(problem("data: {not json\n\n").contains("not valid JSON"));
    assert!(problem("data: [1]\n\ndata: [DONE]\n\n").contains("object"));
    assert!(problem("{\"object\":\"list\"}").contains("choices"));
    assert!(problem("Service is starting").contains("ended before"));
}

#[test]
fn an_end_is_a_reason_or_the_terminator() {
    let finished = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n";
    assert_eq!(read(&[finished.as_bytes()]).unwrap().finish_reason, "stop");
    let terminated = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n";
    assert_eq!(read(&[terminated.as_bytes()]).unwrap().finish_reason, "stop");
    let mut reader = BodyReader::new();
    assert_eq!(reader.push(&terminated.as_bytes()[..20]), Ok(Progress::Open));
    let mut reader = BodyReader::new();
    assert_eq!(reader.push(finished.as_bytes()), Ok(Progress::Answered));
    assert_eq!(reader.push(b"data: {broken\n\ndata: [DONE]\n\n"), Ok(Progress::Done));
    assert_eq!(reader.finish().unwrap().text, "a");
}

#[test]
fn an_error_event_is_an_error() {
    for body in [
        "data: {\"error\":{\"message\":\"m\"}}\n\n",
        "event: error\ndata: {\"message\":\"m\"}\n\n",
        "event: error\ndata: m\n\n",
        "data: {\"object\":\"error\",\"message\":\"m\",\"code\":400}\n\n",
        "{\"message\":\"m\",\"code\":400}",
        "{\"error\":{\"message\":\"m\"}}",
    ] {
        let Err(Malformed::Error(error)) = read(&[body.as_bytes()]) else { panic!("{body}") };
        assert_eq!(error.message, "m");
    }
}

proptest! {
    #[test]
    fn any_split_gives_the_same_answer(whole: bool, begin in "[\n \u{feff}]{0,3}", cuts in prop::collection::vec(0usize..700, 0..8)) {
        let text = if whole { WHOLE } else { STREAM };
        let marked = begin + text;
        let bytes = marked.as_bytes();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        prop_assert_eq!(read(&pieces).unwrap(), read(&[text.as_bytes()]).unwrap());
    }

    #[test]
    fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..300), start in prop::sample::select(vec!["", "{", "data: ", "data: {\"choices\":["])) {
        let _ = read(&[start.as_bytes(), &bytes]);
    }
}

use super::*;

#[test]
fn the_name_of_an_error_tells_its_kind_where_its_words_do_not() {
    let replay = read(
        Provider::Gemini,
        &[
            json!({"type": "result", "status": "error", "error": {"type": "FatalAuthenticationError", "message": "it was refused"}}),
        ],
    );
    assert_eq!(replay.fault.unwrap().kind().unwrap().as_str(), "auth");
}

use super::*;
use proptest::prelude::*;
use serde_json::json;

fn schema() -> Schema {
    let source = json!({
        "type": "object",
        "properties": { "name": { "type": "string" }, "count": { "type": "integer" } },
        "required": ["name", "count"],
        "additionalProperties": false,
    });
    Schema::compile(source, "schema").unwrap()
}

fn fits(text: &str) -> Value {
    match schema().read(text) {
        Reading::Fits(value) => value,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn finds_the_value_wherever_it_stands() {
    let value = json!({ "name": "a } b", "count": 2 });
    let plain = value.to_string();
    for text in [
        plain.clone(),
        format!("\u{feff} {plain}\n"),
        format!("```json\n{plain}\n```"),
        format!("```\n{plain}\n```"),
        format!("Here it is:\n```json\n{plain}\n```\nAnything else {{you}} want?"),
        format!("Sure! [1] says {{\"name\": 1}}, so: {plain} (done)"),
        Value::String(plain.clone()).to_string(),
        "The answer:\n{\"name\": \"a } b\", // comment\n \"count\": 2,\n}\nBye.".to_owned(),
    ] {
        assert_eq!(fits(&text), value);
    }
}

#[test]
fn of_several_that_fit_the_last_counts() {
    assert_eq!(fits(r#"e.g. {"name":"x","count":0}, but I say {"name":"y","count":1}."#)["name"], "y");
}

#[test]
fn a_value_within_a_value_is_not_taken_for_the_answer() {
    let reading = schema().read(r#"{"wrapped": {"name":"x","count":0}}"#);
    assert!(matches!(reading, Reading::Misfits { .. }), "{reading:?}");
}

#[test]
fn tells_every_problem_with_its_place() {
    let reading = schema().read(r#"{"name": 5, "other": true}"#);
    let problems = reading.problems();
    assert!(problems.contains(&r#"/name: 5 is not of type "string""#.to_owned()), "{problems:?}");
    assert!(
        problems.iter().any(|problem| problem.contains("\"count\" is a required property")),
        "{problems:?}"
    );
    assert!(problems.iter().any(|problem| problem.contains("'other'")), "{problems:?}");
}

#[test]
fn an_answer_that_breaks_off_is_no_answer() {
    assert_eq!(schema().read(r#"{"name": "x", "count": 1"#), Reading::NoJson);
    assert_eq!(schema().read("I can't do that."), Reading::NoJson);
    assert_eq!(schema().read("").problems().len(), 1);
}

#[test]
fn takes_scalars_that_are_the_whole_answer() {
    let number = Schema::compile(json!({ "type": "number" }), "schema").unwrap();
    assert_eq!(number.read(" 42\n"), Reading::Fits(json!(42)));
    assert_eq!(number.read("```json\n42\n```"), Reading::Fits(json!(42)));
}

#[test]
fn what_is_no_schema_is_an_invalid_option() {
    for wrong in
        [json!(1), json!("object"), json!({ "type": 5 }), json!({ "$ref": "http://127.0.0.1:1/x.json" })]
    {
        let error = Schema::compile(wrong, "schema").unwrap_err();
        assert_eq!(error.code(), ground::error::ErrorCode::InvalidOption);
        assert!(error.message().starts_with("schema: "), "{}", error.message());
    }
}

#[test]
fn a_problem_quotes_a_long_value_in_part() {
    let text = json!({ "name": "x", "count": "y".repeat(100_000) }).to_string();
    let problems = schema().read(&text).problems();
    assert!(problems.iter().all(|problem| problem.len() < 400));
}

#[test]
fn brackets_without_end_take_bounded_time() {
    for text in ["[".repeat(300_000), "{\"a\":".repeat(100_000), "[1,".repeat(100_000), "{ ".repeat(100_000)]
    {
        assert_eq!(schema().read(&text), Reading::NoJson);
    }
}

proptest! {
    #[test]
    fn any_text_is_taken(text in "[\\[\\]{}\",:/*\\\\nameT1é`\n ]{0,120}") {
        schema().read(&text);
    }

    #[test]
    fn whatever_surrounds_it_the_value_is_found(before in "[^{}\\[\\]]{0,40}", after in "[^{}\\[\\]]{0,40}", name in ".*") {
        let value = json!({ "name": name, "count": 3 });
        prop_assert_eq!(fits(&format!("{before}{value}{after}")), value);
    }
}

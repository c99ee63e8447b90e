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

fn no_json() -> Reading {
    Err(vec![NO_JSON.to_owned()])
}

fn fits(text: &str) -> Value {
    match schema().read(text) {
        Ok(value) => value,
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
    assert!(reading.is_err(), "{reading:?}");
}

#[test]
fn tells_every_problem_with_its_place() {
    let reading = schema().read(r#"{"name": 5, "other": true}"#);
    let problems = reading.unwrap_err();
    assert!(problems.contains(&r#"/name: 5 is not of type "string""#.to_owned()), "{problems:?}");
    assert!(
        problems.iter().any(|problem| problem.contains("\"count\" is a required property")),
        "{problems:?}"
    );
    assert!(problems.iter().any(|problem| problem.contains("'other'")), "{problems:?}");
}

#[test]
fn an_answer_that_breaks_off_is_no_answer() {
    assert_eq!(schema().read(r#"{"name": "x", "count": 1"#), no_json());
    assert_eq!(schema().read("I can't do that."), no_json());
    assert_eq!(schema().read("").unwrap_err().len(), 1);
}

#[test]
fn takes_scalars_that_are_the_whole_answer() {
    let number = Schema::compile(json!({ "type": "number" }), "schema").unwrap();
    assert_eq!(number.read(" 42\n"), Ok(json!(42)));
    assert_eq!(number.read("```json\n42\n```"), Ok(json!(42)));
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
    let problems = schema().read(&text).unwrap_err();
    assert!(problems.iter().all(|problem| problem.len() < 400));
}

#[test]
fn brackets_without_end_take_bounded_time() {
    for text in ["[".repeat(300_000), "{\"a\":".repeat(100_000), "[1,".repeat(100_000), "{ ".repeat(100_000)]
    {
        assert_eq!(schema().read(&text), no_json());
    }
}

fn tree(is_open: bool) -> Schema {
    let mut source = json!({
        "type": "object",
        "properties": { "name": { "type": "string" }, "children": { "type": "array", "items": { "$ref": "#" } } },
        "required": ["name", "children"],
    });
    if !is_open {
        source["additionalProperties"] = json!(false);
    }
    Schema::compile(source, "schema").unwrap()
}

#[test]
fn nothing_inside_of_a_value_that_was_not_read_is_an_answer() {
    let cut = r#"{"name":"root","children":[{"name":"leaf","children":[]},{"name":"next","chil"#;
    assert_eq!(tree(false).read(cut), no_json());
    assert_eq!(tree(false).read(&format!("Here: ```json\n{cut}\n```")), no_json());
    // A slip that the repair does not know.
    for slip in [
        r#"{"name":"root" "children":[{"name":"leaf","children":[]}]}"#,
        r#"{"name":"root"}"children":[{"name":"leaf","children":[]}]}"#,
        r#"{"name:"root","children":[{"name":"leaf","children":[]},{"name":"next","children":[]}]}"#,
        r#"{"na"me":"ro}ot","children":[{"name":"leaf","children":[]}]}"#,
        r#""name":"root","children":[{"name":"leaf","children":[]}]}"#,
    ] {
        assert_eq!(tree(true).read(slip), no_json(), "{slip}");
    }
    let lists = json!({ "type": "array", "items": { "anyOf": [{ "type": "number" }, { "$ref": "#" }] } });
    let lists = Schema::compile(lists, "schema").unwrap();
    for slip in ["[[1,2],[3 4],[5,6]]", "[[1,2]],[3,4]]", "[1,2],[3,4]]", "[[1,2],[3,4]", "][1,2],[3,4]]"] {
        assert_eq!(lists.read(slip), no_json(), "{slip}");
    }
}

#[test]
fn an_answer_of_any_content_is_found_behind_prose() {
    let mut nested = json!({ "name": "leaf", "children": [] });
    for _ in 0..200 {
        nested = json!({ "name": "n", "children": [nested] });
    }
    assert_eq!(tree(false).read(&format!("So: {nested}")), Ok(nested));
    let any = Schema::compile(json!({ "type": "object" }), "schema").unwrap();
    for (text, value) in [
        (r#"So: {"a":"x\ud83d"} ok"#, json!({ "a": "x\u{fffd}" })),
        (r#"So: {"a":1e999}"#, json!({ "a": f64::MAX })),
        (r#"Between "{" and '}' stands {"a":1}."#, json!({ "a": 1 })),
        ("Dear {name}, [see below] - [ ] todo [x] done: {\"a\":1}\n", json!({ "a": 1 })),
    ] {
        assert_eq!(any.read(text), Ok(value), "{text}");
    }
    // Too deep to be built whole.
    let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(any.read(&deep), no_json());
}

/// Answers to a recursive schema, whose strings hold what JSON is made of.
fn node() -> impl Strategy<Value = Value> {
    let name = || r#"[a1 ,:\[\]{}"\\/\n]{0,6}"#;
    let leaf = name().prop_map(|name| json!({ "name": name, "children": [] }));
    leaf.prop_recursive(3, 12, 3, move |inner| {
        (name(), proptest::collection::vec(inner, 0..3))
            .prop_map(|(name, children)| json!({ "name": name, "children": children }))
    })
}

/// A schema that takes whatever an answer holds: nodes, and lists of anything.
fn anything() -> Schema {
    Schema::compile(json!({ "anyOf": [{ "type": "object" }, { "type": "array" }] }), "schema").unwrap()
}

/// A damaged answer may be found only as a whole, with all its fields. One of their names may be damaged.
fn is_whole_or_none(text: &str) -> bool {
    match anything().read(text) {
        Ok(value) if value.is_object() => {
            ["root", "first", "last"].iter().filter(|name| value.get(name).is_some()).count() >= 2
        }
        Ok(_) => false,
        _ => true,
    }
}

proptest! {
    #[test]
    fn a_cut_answer_is_never_taken_for_a_part_of_it(node in node(), is_pretty in any::<bool>(), cut in 0.0f64..1.0) {
        let whole = json!({ "first": node, "root": true });
        let text = if is_pretty { serde_json::to_string_pretty(&whole).unwrap() } else { whole.to_string() };
        let cut = text.floor_char_boundary((text.len() as f64 * cut) as usize);
        prop_assert_eq!(anything().read(&text[..cut]), no_json());
    }

    #[test]
    fn a_slip_gives_the_whole_answer_or_none(
        node in node(), is_pretty in any::<bool>(), place in 0.0f64..1.0, slip in r#"[a1 ,:\[\]{}"\\/
]"#, how in 0..3
    ) {
        let whole = json!({ "root": true, "first": node, "last": [[1, 2], [3], "x", { "a": [{}] }] });
        let text = if is_pretty { serde_json::to_string_pretty(&whole).unwrap() } else { whole.to_string() };
        let at = text.floor_char_boundary((text.len() as f64 * place) as usize);
        let behind = &text[if how == 0 { at } else { at + 1 }..];
        let slip = if how == 1 { "" } else { &slip };
        let harmed = format!("{}{slip}{behind}", &text[..at]);
        prop_assert!(is_whole_or_none(&harmed), "{harmed}");
    }

    #[test]
    fn any_text_is_taken(text in "[\\[\\]{}\",:/*\\\\nameT1é`\n ]{0,120}") {
        let _ = schema().read(&text);
    }

    #[test]
    fn whatever_surrounds_it_the_value_is_found(before in "[^{}\\[\\]]{0,40}", after in "[^{}\\[\\]]{0,40}", name in ".*") {
        let value = json!({ "name": name, "count": 3 });
        prop_assert_eq!(fits(&format!("{before}{value}{after}")), value);
    }
}

#[test]
fn a_format_is_a_rule() {
    for (format, good, bad) in [
        ("date", "2026-02-28", "2026-02-30"),
        ("date", "2026-02-28", "next Tuesday"),
        ("date-time", "2026-02-28T10:00:00Z", "2026-02-28 10:00"),
        ("time", "10:00:00Z", "10 o'clock"),
        ("duration", "P1D", "a day"),
        ("email", "a@example.com", "a at example"),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123"),
        ("ipv4", "10.0.0.1", "10.0.0.256"),
        ("ipv6", "::1", "10.0.0.1"),
        ("uri", "https://example.com/a", "not an address"),
        ("hostname", "example.com", "-a-"),
        ("regex", "a+", "a("),
    ] {
        let schema = Schema::compile(json!({ "type": "string", "format": format }), "schema").unwrap();
        assert_eq!(schema.problems(&json!(good)), Vec::<String>::new(), "{format} {good}");
        assert_ne!(schema.problems(&json!(bad)), Vec::<String>::new(), "{format} {bad}");
    }
    let own = Schema::compile(json!({ "type": "string", "format": "colour of mine" }), "schema").unwrap();
    assert_eq!(own.problems(&json!("red")), Vec::<String>::new());
}

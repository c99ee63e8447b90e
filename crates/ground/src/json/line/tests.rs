use super::*;
use proptest::prelude::*;

/// Looks at the fields of a line that has to be an object.
fn with<const N: usize>(line: &[u8], names: [&str; N], look: impl FnOnce([Json; N])) {
    let mut index = Index::default();
    look(index.read(line.trim_ascii()).expect("an object").fields(names));
}

fn is_object(line: &[u8]) -> bool {
    Index::default().read(line).is_some()
}

#[test]
fn a_byte_order_mark_before_an_object_is_no_part_of_it() {
    assert!(is_object("\u{feff}{\"type\":\"a\"}".as_bytes()));
    assert!(!is_object("\u{feff}\u{feff}{}".as_bytes()));
}

#[test]
fn finds_fields_wherever_they_stand_and_skips_the_rest() {
    let line = br#" {"a": {"type":"inner"}, "type" : "outer" ,"n":-1.5e2,"list":[1, "]" ,{"x":[]}, [ ] ],"ok":true , "o":{"a":1, "b":[2]}} "#;
    with(line, ["type", "n", "list", "ok", "none", "o"], |[kind, number, list, ok, none, inner]| {
        assert_eq!(kind.text().unwrap(), "outer");
        assert_eq!(number.number(), Some(-150.0));
        assert_eq!(
            list.items().map(|item| item.raw().into_owned()).collect::<Vec<_>>(),
            ["1", "\"]\"", "{\"x\":[]}", "[ ]"]
        );
        assert_eq!(ok.flag(), Some(true));
        assert!(!none.is_present());
        assert_eq!(inner.values().map(|value| value.raw().into_owned()).collect::<Vec<_>>(), ["1", "[2]"]);
    });
}

#[test]
fn what_is_no_whole_object_is_none() {
    for line in [
        "",
        "123",
        "null",
        "[[[[",
        "[]",
        "{",
        "{}x",
        "{}{}",
        r#"{"a"}"#,
        r#"{"a":1,}"#,
        r#"{"a":01}"#,
        r#"{"a":"b"#,
        r#"{"a":"\"#,
        r#"{"a":[1}}"#,
        r#"{"a":[1,]}"#,
        r#"{"a":[,1]}"#,
        r#"{"a":}"#,
        r#"{"a" "b"}"#,
        r#"{"a":"b""c"}"#,
        r#"{"a":"b"c}"#,
        r#"{,}"#,
        r#"{"a":1 2}"#,
        r#"{a:1}"#,
        r#"{"a":{]}"#,
        r#"{"a":[}]}"#,
        r#"{"a":1]"#,
        r#"{"a"::1}"#,
        r#"{"a":tru}"#,
        r#"x{"a":1}"#,
    ] {
        assert!(!is_object(line.as_bytes()), "{line}");
    }
    assert!(!is_object(format!("{{\"a\":{}", "[".repeat(200_000)).as_bytes()));
    assert!(is_object(b"{}") && is_object(b"{ \"a\" : [ ] }"));
}

#[test]
fn values_of_another_type_count_as_absent() {
    with(br#"{"a":5,"b":"5"}"#, ["a", "b"], |[number, text]| {
        assert_eq!(number.text(), None);
        assert_eq!(number.items().count(), 0);
        assert!(!number.field("b").is_present());
        assert_eq!(text.count(), None);
    });
}

#[test]
fn unescapes_pairs_and_tolerates_halves() {
    with(br#"{"a":"x\n\"\u00e9\ud83d\ude00\ud83d!\u12"}"#, ["a"], |[value]| {
        assert_eq!(value.text().unwrap(), "x\n\"\u{e9}\u{1F600}\u{FFFD}!\u{FFFD}12");
    });
}

#[test]
fn the_last_of_two_fields_with_one_name_counts() {
    with(br#"{"a":1,"a":2}"#, ["a"], |[value]| assert_eq!(value.count(), Some(2)));
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let text = || prop_oneof![any::<String>(), "[\\\\\"{}\\[\\]:, a]{0,80}"];
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        text().prop_map(Into::into),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(serde_json::Value::Array),
            proptest::collection::vec((text(), inner), 0..6)
                .prop_map(|fields| serde_json::Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn reads_what_serde_json_wrote(value in json(), pretty in any::<bool>()) {
        let whole = serde_json::json!({ "before": 1, "wanted": value, "after": [] });
        let line = if pretty { serde_json::to_string_pretty(&whole).unwrap() } else { whole.to_string() };
        let mut index = Index::default();
        let read = index.read(line.as_bytes()).unwrap();
        let [wanted, after] = read.fields(["wanted", "after"]);
        prop_assert!(after.is_present());
        if let Some(text) = value.as_str() {
            prop_assert_eq!(wanted.text().unwrap(), text);
        }
        if let Some(items) = value.as_array() {
            let found: Vec<String> = wanted.items().map(|item| item.build().to_string()).collect();
            prop_assert_eq!(found, items.iter().map(ToString::to_string).collect::<Vec<_>>());
        }
        prop_assert_eq!(wanted.build().to_string(), value.to_string());
    }

    #[test]
    fn any_bytes_are_taken_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut line = b"{\"a\":".to_vec();
        line.extend_from_slice(&bytes);
        line.push(b'}');
        if let Some(found) = Index::default().read(&line) {
            let [value] = found.fields(["a"]);
            let _ = (value.text(), value.number(), value.items().count(), value.build());
        }
    }

    #[test]
    fn accepts_what_serde_json_accepts_and_nothing_else(line in "\\{\"a\":[\\[\\]{}\",:a1 \\\\-]{0,12}\\}") {
        let theirs = strict::<serde::de::IgnoredAny>(line.as_bytes()).is_ok();
        // Escapes are not looked into until a text is wanted.
        if !line.contains('\\') {
            prop_assert_eq!(is_object(line.as_bytes()), theirs);
        }
    }

    #[test]
    fn a_cut_line_is_never_an_object(value in json(), cut in 0.0f64..1.0) {
        let line = serde_json::json!({ "type": "x", "value": value }).to_string();
        let length = line.floor_char_boundary((line.len() as f64 * cut) as usize);
        prop_assert!(!is_object(&line.as_bytes()[..length]));
    }
}

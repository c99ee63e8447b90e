//! The tables of docs/agents.md are what the providers' descriptors say.
//!
//! `SHEEPDOG_BLESS=1 cargo test --test agents harness_providers` writes them anew: read the diff.

#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use serde_json::json;
use sheepdog::harness::Provider;
use std::fs;
use std::path::Path;

/// The text between the marks of a table.
fn check(name: &str, table: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/agents.md");
    let text = fs::read_to_string(&file).unwrap();
    let (begin, end) = (format!("<!-- table: {name} -->\n"), format!("<!-- end of {name} -->"));
    let (before, rest) = text.split_once(&begin).unwrap();
    let (written, after) = rest.split_once(&end).unwrap();
    if std::env::var_os("SHEEPDOG_BLESS").is_some() {
        fs::write(&file, format!("{before}{begin}{table}{end}{after}")).unwrap();
    } else {
        assert_eq!(written, table, "docs/agents.md, {name}");
    }
}

#[test]
fn the_table_of_providers_is_that_of_the_descriptors() {
    let closed = json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false});
    let open = json!({"type": "object"});
    let mut table =
        "| `provider` | CLI | program | installed by | schema by a flag |\n|---|---|---|---|---|\n"
            .to_owned();
    for provider in Provider::ALL {
        let known = provider.descriptor();
        let schema = match ((known.takes_schema)(&open), (known.takes_schema)(&closed)) {
            (true, _) => "an object's",
            (false, true) => "an object's that leaves nothing open",
            (false, false) => "no",
        };
        let (name, title) = (provider.as_str(), known.title);
        table += &format!("| `{name}` | {title} | `{}` | `{}` | {schema} |\n", known.program, known.install);
    }
    check("providers", &table);
}

#[test]
fn every_provider_has_recordings() {
    for provider in Provider::ALL {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/streams").join(provider.as_str());
        let recorded = fs::read_dir(&folder).unwrap().filter(|entry| {
            entry.as_ref().unwrap().path().extension().is_some_and(|extension| extension == "jsonl")
        });
        assert!(recorded.count() >= 13, "{}", provider.as_str());
    }
}

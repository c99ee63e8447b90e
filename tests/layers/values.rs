//! The laws of what comes from outside: JSON, and options from JavaScript.

use crate::source::sources;
use std::path::Path;

/// Data from outside may be no object: writing into it by index panics. `ground::json::object::put` is the way.
#[test]
fn no_json_is_written_by_index() {
    const WRITES: &[&str] = &["\"] = ", "\"].take()", "\"].as_object_mut()", "\"].as_array_mut()"];
    let mut faults = Vec::new();
    for source in sources() {
        for (number, line) in source.code.lines().enumerate() {
            if WRITES.iter().any(|write| line.contains(write)) {
                faults.push(format!("{}:{}: {}", source.shown(), number + 1, line.trim()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// An empty value in the place of what could not be read hides a fault. `read_own` reads what Sheepdog wrote.
#[test]
fn no_empty_value_stands_for_what_could_not_be_read() {
    const READERS: &[&str] = &["json::read(", "json::read::<", "json::read_borrowed", "json::read_first"];
    const EMPTY: &[&str] = &[".unwrap_or_default()", ".unwrap_or(Value::Null)", ".ok().unwrap_or"];
    let mut faults = Vec::new();
    for source in sources() {
        for statement in source.code.split(';') {
            let read = READERS.iter().filter_map(|reader| statement.find(reader)).min();
            let of_it = |at: usize| statement[at..].split(['{', '}']).next().unwrap_or_default();
            if read.is_some_and(|at| EMPTY.iter().any(|empty| of_it(at).contains(empty))) {
                faults.push(format!("{}: {}", source.shown(), statement.trim()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Structs from JavaScript that are no options, or whose JavaScript side is the Copilot SDK's.
const NO_OPTIONS: &[&str] = &[
    "VariableChange",
    "PairSpec",
    "HeaderSpec",
    "ErrorLayerSpec",
    "AgentSandboxSpec",
    "RequireSpec",
    "RuntimeRequest",
    "RuntimePrompt",
    "RuntimeCommandSpec",
    "RuntimeDownload",
    "CopilotStartSpec",
    "CopilotSetupCall",
    "CopilotTurnSpec",
    "CopilotResumeSpec",
    "CopilotResumeEvidence",
];

/// Options of the edge whose fields are read one by one. A field that is added there can be forgotten; in a pattern without `..` it
/// can't, because the compiler names it.
fn forgetful(code: &str, elsewhere: &str) -> Vec<String> {
    let word = |text: &str| -> String {
        text.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
    };
    let mut found = Vec::new();
    for (at, _) in code.match_indices("napi(object, object_to_js = false)]") {
        let rest = &code[at..];
        let Some(begin) = rest.find("pub struct ") else { continue };
        let name = word(&rest[begin + "pub struct ".len()..]);
        let body = rest[begin..].split("\n}").next().unwrap_or_default();
        let fields: Vec<String> = body
            .lines()
            .filter_map(|line| line.trim().strip_prefix("pub "))
            .filter(|line| !line.starts_with("struct"))
            .map(word)
            .collect();
        let is_taken_apart = |code: &str| {
            code.match_indices(&format!("{name} {{")).any(|(at, _)| {
                let pattern = code[at..].split('}').next().unwrap_or_default();
                let after = &code[(at + pattern.len() + 1).min(code.len())..];
                after
                    .trim_start_matches(|letter: char| letter == ')' || letter.is_whitespace())
                    .starts_with('=')
                    && !pattern.contains("..")
                    && fields.iter().all(|field| pattern.contains(field.as_str()))
            })
        };
        if !is_taken_apart(code) && !is_taken_apart(elsewhere) && !NO_OPTIONS.contains(&name.as_str()) {
            found.push(name);
        }
    }
    found
}

#[test]
fn options_from_javascript_are_taken_apart_by_name() {
    let sources = sources();
    let edge = sources.iter().filter(|source| source.home == "sheepdog");
    // It takes the secrets of a sandbox, which another file may stand for.
    let egress = edge.clone().find(|source| source.path.ends_with("binding/egress.rs")).expect("a file");
    let faults: Vec<String> = edge.clone().flat_map(|source| forgetful(&source.code, &egress.code)).collect();
    assert!(faults.is_empty(), "let NAME {{ every, field }} = spec; is missing for {}", faults.join(", "));

    // An option that is added and forgotten is seen.
    let process = edge.into_iter().find(|source| source.path.ends_with("process.rs")).expect("a file");
    let more = process
        .code
        .replace("pub struct RunSpec {", "pub struct RunSpec {\n    pub probe_ms: Option<Millis>,");
    assert_eq!(forgetful(&more, ""), ["RunSpec"]);
    let rest = process.code.replace("let RunSpec {", "let RunSpec { ..");
    assert_eq!(forgetful(&rest, ""), ["RunSpec"]);
}

/// Each option is either written into the start of a record or left out on purpose: the pattern names them all.
#[test]
fn recorded_options_are_chosen_from_all_of_them() {
    let sources = sources();
    for (home, file, name) in [
        ("process", "on_record.rs", "ProcessSpec"),
        ("agents", "harness/turn/record.rs", "TurnRequest"),
        ("agents", "harness/turn/record.rs", "AgentRequest"),
    ] {
        let source = sources.iter().find(|one| one.home == home && one.path == Path::new(file));
        let code = &source.expect("the file").code;
        let pattern = code.split(&format!("let {name} {{")).nth(1).expect("a pattern");
        assert!(
            !pattern.split('}').next().expect("its end").contains(".."),
            "{file} leaves out some of {name}"
        );
    }
}

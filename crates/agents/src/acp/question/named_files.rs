//! PURE: the files that a request of an agent names, in every place where it may name one.

use ground::percent::decoded;
use serde_json::Value;

/// Values within values. A deeper one names nothing that a tool would read.
pub(crate) const MAX_DEPTH: usize = 16;

/// Endings of the names of fields that hold a path, in lower case, without `_` and `-`.
const ENDINGS: [&str; 8] = ["path", "paths", "file", "files", "filename", "filenames", "uri", "uris"];
/// Other names of such fields.
const NAMES: [&str; 18] = [
    "from",
    "to",
    "source",
    "sources",
    "destination",
    "src",
    "dst",
    "dest",
    "target",
    "targets",
    "oldname",
    "newname",
    "grantroot",
    "output",
    "out",
    "saveas",
    "saveto",
    "location",
];
/// Fields whose own fields are named by paths.
const TABLES: [&str; 3] = ["changes", "files", "edits"];
/// Fields with the text of a patch.
const PATCHES: [&str; 4] = ["patch", "diff", "input", "patchtext"];

/// All paths in the input of a tool.
pub(crate) fn named_in(input: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(input, MAX_DEPTH, &mut found);
    found
}

fn collect(value: &Value, depth: usize, found: &mut Vec<String>) {
    if depth == 0 {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let plain: String =
                    name.chars().filter(|letter| !"_-".contains(*letter)).collect::<String>().to_lowercase();
                if NAMES.contains(&plain.as_str()) || ENDINGS.iter().any(|ending| plain.ends_with(ending)) {
                    texts(value).for_each(|text| named(text, found));
                }
                if PATCHES.contains(&plain.as_str()) {
                    texts(value).for_each(|text| patched(text, found));
                }
                if let (true, Value::Object(table)) = (TABLES.contains(&plain.as_str()), value) {
                    found.extend(table.keys().map(|path| path_of(path)));
                }
                collect(value, depth - 1, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, depth - 1, found)),
        // The input of a tool that takes a patch and nothing else.
        Value::String(text) if depth == MAX_DEPTH => patched(text, found),
        _ => {}
    }
}

/// A path as it stands, and as a program takes it that trims it.
fn named(text: &str, found: &mut Vec<String>) {
    found.push(path_of(text));
    if text.trim() != text {
        found.push(path_of(text.trim()));
    }
}

/// The text, or the texts of a list.
fn texts(value: &Value) -> impl Iterator<Item = &str> {
    let many = value.as_array().map(Vec::as_slice).unwrap_or_default();
    value.as_str().into_iter().chain(many.iter().filter_map(Value::as_str)).filter(|text| !text.is_empty())
}

fn patched(text: &str, found: &mut Vec<String>) {
    const HEADS: [&str; 8] = [
        "*** Add File: ",
        "*** Update File: ",
        "*** Delete File: ",
        "*** Move to: ",
        "--- ",
        "+++ ",
        "rename from ",
        "rename to ",
    ];
    for line in text.lines() {
        let Some(path) = HEADS.iter().find_map(|head| line.strip_prefix(head)) else { continue };
        let path = path.split('\t').next().unwrap_or_default().trim();
        let plain = if line.starts_with(['-', '+']) {
            path.strip_prefix("a/").or_else(|| path.strip_prefix("b/")).unwrap_or(path)
        } else {
            path
        };
        if !plain.is_empty() && plain != "/dev/null" {
            found.push(plain.to_owned());
        }
    }
}

/// The path of a `file:` address, or the text itself.
pub(crate) fn path_of(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once(':') else { return text.to_owned() };
    if !scheme.eq_ignore_ascii_case("file") || !rest.starts_with('/') {
        return text.to_owned();
    }
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    decoded(rest.strip_prefix("localhost").unwrap_or(rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_file_is_found_wherever_an_input_names_it() {
        let patch =
            "*** Begin Patch\n*** Update File: src/a.rs\n*** Move to: /etc/b\n@@\n-x\n+y\n*** End Patch";
        for (input, expected) in [
            (json!({"file_path":"a"}), vec!["a"]),
            (json!({"filePath":"a","notebook_path":"b"}), vec!["a", "b"]),
            (json!({"source":"a","destination":"b"}), vec!["a", "b"]),
            (json!({"paths":["a","b"]}), vec!["a", "b"]),
            (json!({"edits":[{"path":"a"},{"file_path":"b"}]}), vec!["a", "b"]),
            (json!({"changes":{"a":{"type":"update"},"/b":{"move_path":"c"}}}), vec!["a", "/b", "c"]),
            (json!({"uri":"file:///a%20b"}), vec!["/a b"]),
            (json!({"patch":patch}), vec!["src/a.rs", "/etc/b"]),
            (json!(patch), vec!["src/a.rs", "/etc/b"]),
            (json!({"diff":"--- a/x\n+++ b/y\n@@ -1 +1 @@\n-p\n+q"}), vec!["x", "y"]),
            (json!({"diff":"--- /dev/null\n+++ b/y"}), vec!["y"]),
            (json!({"old_path":"a","newPath":"b"}), vec!["a", "b"]),
            (json!({"command":"rm a","description":"b"}), vec![]),
        ] {
            assert_eq!(named_in(&input), expected, "{input}");
        }
    }
}

//! Compares the tables of docs/agents.md and docs/internals/agents.md with the providers' descriptors.
//!
//! `SHEEPDOG_BLESS=1 cargo test --test agents harness_providers -- --test-threads=1` rewrites them: read the diff.

#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use crate::recordings::recordings_of;
use agents::harness::launch::{Launch, Wanted};
use agents::harness::{Level, Provider};
use serde_json::json;
use std::fs;
use std::path::Path;

/// The text between the marks of a table.
fn check(page: &str, name: &str, table: &str) {
    let file = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs")).join(page);
    let text = fs::read_to_string(&file).unwrap();
    let (begin, end) = (format!("<!-- table: {name} -->\n"), format!("<!-- end of {name} -->"));
    let (before, rest) = text.split_once(&begin).unwrap();
    let (written, after) = rest.split_once(&end).unwrap();
    if std::env::var_os("SHEEPDOG_BLESS").is_some() {
        fs::write(&file, format!("{before}{begin}{table}{end}{after}")).unwrap();
    } else {
        assert_eq!(written, table, "docs/{page}, {name}");
    }
}

#[test]
fn the_table_of_providers_is_that_of_the_descriptors() {
    let closed = json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false});
    let open = json!({"type": "object"});
    let mut table =
        "| `provider` | CLI | program | installed by | JSON Schema by a flag |\n|---|---|---|---|---|\n"
            .to_owned();
    for provider in Provider::ALL {
        let known = provider.descriptor();
        let schema = match ((known.takes_schema)(&open), (known.takes_schema)(&closed)) {
            (true, _) => "if it is of an object",
            (false, true) => "if it is of a closed object",
            (false, false) => "no",
        };
        let (name, title) = (provider.as_str(), known.title);
        table += &format!("| `{name}` | {title} | `{}` | `{}` | {schema} |\n", known.program, known.install);
    }
    check("agents.md", "providers", &table);
}

/// The mechanisms that limit a turn of this provider, as a table cell.
fn held(provider: Provider, permission: Level, allow: &[&str], is_sandboxed: bool) -> String {
    let wanted = Wanted {
        permission,
        is_sandboxed,
        allow: allow.iter().map(|glob| (*glob).to_owned()).collect(),
        folder: "RUN".into(),
        cwd: "/CWD".into(),
        ..Wanted::default()
    };
    let mut launch = Launch::new(&wanted);
    if let Err(error) = (provider.descriptor().hold)(&wanted, &mut launch) {
        let (option, _) = error.message().split_once(':').unwrap();
        return format!("`INVALID_OPTION`, `{option}`");
    }
    let set = launch.set.iter().chain(&launch.held).map(|(name, value)| format!("`{name}={value}`"));
    let files = launch.files.iter().map(|(path, text)| {
        let text = text.trim().replace("\n[[rule]]", " [[rule]]").replace('\n', ", ").replace("]],", "]]");
        // Text that contains a backquote needs two around it.
        let quotes = if text.contains('`') { "``" } else { "`" };
        format!("{}: {quotes}{text}{quotes}", path.display())
    });
    let args = Some(launch.args.join(" ")).filter(|args| !args.is_empty()).map(|args| format!("`{args}`"));
    let cell = args.into_iter().chain(set).chain(files).collect::<Vec<_>>().join("<br>").replace('|', "\\|");
    if cell.is_empty() { "nothing: it never asks".to_owned() } else { cell }
}

/// Whether a turn of this provider can be limited so, as a short cell.
fn holds(provider: Provider, permission: Level, allow: &[&str]) -> &'static str {
    let is_held =
        |is_sandboxed| !held(provider, permission, allow, is_sandboxed).starts_with("`INVALID_OPTION`");
    match (is_held(false), is_held(true)) {
        (true, _) => "yes",
        (false, true) => "in a sandbox",
        (false, false) => "refused",
    }
}

#[test]
fn the_table_of_levels_is_that_of_the_descriptors() {
    let mut table =
        "| `provider` | \"plan\" | \"edit\" | \"edit\" with `allow` | \"auto\" |\n|---|---|---|---|---|\n"
            .to_owned();
    for provider in Provider::ALL {
        let cells = [
            holds(provider, Level::Plan, &[]),
            holds(provider, Level::Edit, &[]),
            holds(provider, Level::Edit, &["git *"]),
            holds(provider, Level::Auto, &[]),
        ];
        table += &format!("| `{}` | {} |\n", provider.as_str(), cells.join(" | "));
    }
    check("agents.md", "levels", &table);
}

#[test]
fn the_sections_of_flags_are_those_of_the_descriptors() {
    let mut text = String::new();
    for provider in Provider::ALL {
        text += &format!("#### {}\n\n", provider.descriptor().title);
        let ways: [(&str, Level, &[&str]); 4] = [
            ("\"plan\"", Level::Plan, &[]),
            ("\"edit\"", Level::Edit, &[]),
            ("\"edit\" with `allow: [\"git *\"]`", Level::Edit, &["git *"]),
            ("\"auto\"", Level::Auto, &[]),
        ];
        for (name, level, allow) in ways {
            let (outside, inside) = (held(provider, level, allow, false), held(provider, level, allow, true));
            let is_refused = |cell: &str| cell.starts_with("`INVALID_OPTION`");
            let lines = match (is_refused(&outside), is_refused(&inside)) {
                (true, true) => vec![(String::new(), outside)],
                (true, false) => vec![(", in a sandbox alone".to_owned(), inside)],
                _ if inside == outside => vec![(String::new(), outside)],
                _ => vec![(String::new(), outside), (", in a sandbox".to_owned(), inside)],
            };
            for (place, cell) in lines {
                text += &format!("- {name}{place}: {}\n", cell.replace("<br>", " and ").replace("\\|", "|"));
            }
        }
        text += "\n";
    }
    check("internals/agents.md", "flags", &text);
}

#[test]
fn the_list_of_what_a_sandbox_grants_is_that_of_the_descriptors() {
    let mut list = String::new();
    let ways = |place: &str| {
        let ways = place.split('|').map(|way| format!("`{way}`")).collect::<Vec<_>>();
        ways.join(", else ")
    };
    for provider in Provider::ALL {
        let known = provider.descriptor();
        list += &format!("- `{}`\n", provider.as_str());
        if let Some(own) = &known.own_state {
            let written: Vec<_> = own.written.iter().map(|name| format!("`{name}`")).collect();
            list += &format!("  - of {}: {}\n", ways(own.root), written.join(", "));
        }
        for place in known.state.iter().filter(|place| !place.ends_with('/')) {
            list += &format!("  - {}\n", ways(place));
        }
    }
    check("internals/agents.md", "sandboxes", &format!("{list}\n"));
}

#[test]
fn the_table_of_sessions_is_that_of_the_descriptors() {
    let mut table =
        "| `provider` | \"plan\" | \"edit\" | \"ask\" | \"auto\" |\n|---|---|---|---|---|\n".to_owned();
    let mut details = String::new();
    for provider in Provider::ALL {
        let known = provider.descriptor();
        let mut cells = Vec::new();
        for (level, mode) in Level::ALL.into_iter().zip(&known.modes) {
            let Some(mode) = mode else {
                cells.push("refused".to_owned());
                continue;
            };
            let id = mode.id.rsplit('#').next().unwrap_or_default();
            let mut more: Vec<_> = mode.set.iter().map(|(name, value)| format!("`{name}={value}`")).collect();
            if !mode.args.is_empty() {
                more.push(format!("`{}`", mode.args.join(" ")));
            }
            if !mode.meta.is_empty() {
                more.push(format!("`_meta`: `{}`", mode.meta));
            }
            let cell = match (mode.made, id) {
                (Some(make), _) => {
                    let (name, value) = make(&|_| None, "RUN").unwrap();
                    more.insert(0, format!("`{name}={value}`"));
                    "`RUN`, made for it".to_owned()
                }
                (None, "") => "as it starts".to_owned(),
                (None, id) => format!("`{id}`"),
            };
            if !more.is_empty() {
                details += &format!("- {} at {:?}: {}\n", known.title, level.as_str(), more.join(" and "));
            }
            cells.push(cell);
        }
        table += &format!("| `{}` | {} |\n", provider.as_str(), cells.join(" | "));
    }
    check("internals/agents.md", "sessions", &format!("{table}\n"));
    check("internals/agents.md", "modes", &details);
}

#[test]
fn every_provider_has_recordings() {
    for provider in Provider::ALL {
        assert!(recordings_of(provider).len() >= 13, "{}", provider.as_str());
    }
}

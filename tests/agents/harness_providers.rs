//! The tables of docs/agents.md are what the providers' descriptors say.
//!
//! `SHEEPDOG_BLESS=1 cargo test --test agents harness_providers -- --test-threads=1` writes them anew: read the diff.

#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use serde_json::json;
use sheepdog::harness::launch::{Launch, Wanted};
use sheepdog::harness::{Level, Provider};
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

/// What holds a turn there, as a cell of a table.
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
        // A backquote inside needs two around.
        let quotes = if text.contains('`') { "``" } else { "`" };
        format!("{}: {quotes}{text}{quotes}", path.display())
    });
    let args = Some(launch.args.join(" ")).filter(|args| !args.is_empty()).map(|args| format!("`{args}`"));
    let cell = args.into_iter().chain(set).chain(files).collect::<Vec<_>>().join("<br>").replace('|', "\\|");
    if cell.is_empty() { "nothing: it never asks".to_owned() } else { cell }
}

#[test]
fn the_table_of_levels_is_that_of_the_descriptors() {
    let mut table = "| `provider` | \"plan\" | \"edit\" | \"edit\", `allow: [\"git *\"]` | \"auto\" |\n|---|---|---|---|---|\n".to_owned();
    for provider in Provider::ALL {
        let cells = [
            held(provider, Level::Plan, &[], false),
            held(provider, Level::Edit, &[], false),
            held(provider, Level::Edit, &["git *"], false),
            held(provider, Level::Auto, &[], false),
        ];
        table += &format!("| `{}` | {} |\n", provider.as_str(), cells.join(" | "));
    }
    check("levels", &table);
}

#[test]
fn the_table_of_sandboxes_is_that_of_the_descriptors() {
    let mut table = "| `provider` | its state | what else changes in a sandbox |\n|---|---|---|\n".to_owned();
    for provider in Provider::ALL {
        let known = provider.descriptor();
        let state = known.state.iter().map(|place| {
            let ways = place.split('|').map(|way| format!("`{way}`")).collect::<Vec<_>>();
            ways.join(", else ")
        });
        let changed = [Level::Plan, Level::Edit].into_iter().filter_map(|level| {
            let inside = held(provider, level, &[], true);
            (inside != held(provider, level, &[], false)).then(|| format!("{:?}: {inside}", level.as_str()))
        });
        let changed = changed.collect::<Vec<_>>().join("<br>");
        table +=
            &format!("| `{}` | {} | {changed} |\n", provider.as_str(), state.collect::<Vec<_>>().join("; "));
    }
    check("sandboxes", &table);
}

#[test]
fn the_table_of_sessions_is_that_of_the_descriptors() {
    let mut table =
        "| `provider` | \"plan\" | \"edit\" | \"ask\" | \"auto\" |\n|---|---|---|---|---|\n".to_owned();
    for provider in Provider::ALL {
        let cells = provider.descriptor().modes.iter().map(|mode| {
            let Some(mode) = mode else { return "`INVALID_OPTION`".to_owned() };
            let id = mode.id.rsplit('#').next().unwrap_or_default();
            let id = Some(format!("`{id}`")).filter(|_| !id.is_empty());
            let args = Some(format!("`{}`", mode.args.join(" "))).filter(|_| !mode.args.is_empty());
            let set = mode.set.iter().map(|(name, value)| format!("`{name}={value}`"));
            let made = mode.made.map(|make| {
                let (name, value) = make(&|_| None, "RUN").unwrap();
                format!("`RUN`, `{name}={value}`")
            });
            let id = id.filter(|_| made.is_none());
            let cell: Vec<_> = made.into_iter().chain(id).chain(args).chain(set).collect();
            if cell.is_empty() { "as it starts".to_owned() } else { cell.join(", ") }
        });
        let cells: Vec<_> = cells.collect();
        table += &format!("| `{}` | {} |\n", provider.as_str(), cells.join(" | "));
    }
    check("sessions", &table);
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

//! The law of imports (ARCHITECTURE.md): every module may only use what lies below it, each outside crate has one home.
//!
//! Imports are read from the sources' text: `crate::` paths, `use` of outside crates, and paths that begin with a crate's name.

#![expect(clippy::expect_used, reason = "a panic is a test's report, in its helpers too")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Layer 0.
const VALUES: &[&str] = &["error", "line", "percent", "random", "redaction", "retry"];
/// Layer 1, for everybody above.
const GROUND: &[&str] = &["os", "record", "trace"];
const MECHANISMS: &[&str] = &["process", "jsonrpc", "http", "watch"];
/// Layer 2.
const AGENTS: &[&str] = &["model", "harness", "acp", "copilot"];
/// Layer 3.
const SERVICES: &[&str] = &["runtime", "fleet"];

/// Top-level modules that each one may name, itself aside.
const MAY_USE: &[(&str, &[&[&str]])] = &[
    ("error", &[]),
    ("line", &[]),
    ("percent", &[]),
    ("random", &[]),
    ("redaction", &[]),
    ("retry", &[&["error"]]),
    ("os", &[]),
    ("record", &[&["error", "random", "redaction", "os"]]),
    ("trace", &[&["os", "record"]]),
    ("process", &[VALUES, GROUND]),
    ("jsonrpc", &[VALUES, GROUND]),
    ("http", &[VALUES, GROUND]),
    ("watch", &[VALUES, GROUND]),
    ("model", &[VALUES, GROUND, &["http"]]),
    ("harness", &[VALUES, GROUND, MECHANISMS, &["model"]]),
    ("acp", &[VALUES, GROUND, MECHANISMS, &["model", "harness"]]),
    ("copilot", &[VALUES, GROUND, MECHANISMS]),
    ("runtime", &[VALUES, GROUND, MECHANISMS, AGENTS]),
    ("fleet", &[VALUES, GROUND, MECHANISMS, AGENTS]),
    ("binding", &[VALUES, GROUND, MECHANISMS, AGENTS, SERVICES]),
    ("fuzz", &[VALUES, GROUND, MECHANISMS, AGENTS, SERVICES, &["binding"]]),
];

/// Where an outside crate is at home. A crate that is not listed here has no home yet: list it.
const HOMES: &[(&str, &[&str])] = &[
    // For a feature of it alone (Cargo.toml).
    ("bitflags", &[]),
    ("serde", &["*"]),
    ("serde_json", &["*"]),
    (
        "tokio",
        &[
            "os", "record", "process", "jsonrpc", "http", "watch", "model", "harness", "acp", "copilot",
            "runtime", "binding", "fleet",
        ],
    ),
    (
        "bytes",
        &[
            "os", "process", "jsonrpc", "http", "harness", "acp", "copilot", "runtime", "model", "binding",
            "fleet",
        ],
    ),
    (
        "futures_util",
        &[
            "os", "record", "process", "jsonrpc", "http", "watch", "model", "harness", "acp", "copilot",
            "runtime", "fleet", "binding",
        ],
    ),
    ("getrandom", &["random"]),
    ("memchr", &["line", "os", "binding", "process", "jsonrpc", "http", "harness", "copilot", "redaction"]),
    ("nix", &["os", "process"]),
    ("napi", &["binding"]),
    ("napi_derive", &["binding"]),
    ("reqwest", &["http"]),
    ("rustls", &["http", "fleet"]),
    ("rustls_native_certs", &["http"]),
    ("webpki_roots", &["http"]),
    ("httpdate", &["retry", "http", "model"]),
    ("jiff", &["harness"]),
    ("jsonschema", &["model"]),
    ("base64", &["http", "acp", "runtime", "fleet"]),
    ("sha2", &["runtime", "fleet"]),
    ("tokio_util", &["jsonrpc"]),
    ("tokio_tungstenite", &["runtime"]),
    ("zip", &["runtime"]),
    ("ignore", &["watch"]),
    ("inotify", &["watch"]),
    ("libc", &["os", "process", "watch"]),
    ("httparse", &["runtime"]),
    ("async_nats", &["fleet"]),
    ("tracing", &["trace"]),
];

/// Values are pure, and so is every file that says PURE in its first line.
const PURE_NEVER: &[&str] = &["tokio", "reqwest", "napi", "inotify"];

struct Source {
    path: PathBuf,
    module: String,
    /// Without comments and tests.
    code: String,
    pure: bool,
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut open = vec![root.clone()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry")) {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !is_test_file(&path) {
                let relative = path.strip_prefix(&root).expect("below src").to_path_buf();
                let first =
                    relative.components().next().expect("a name").as_os_str().to_string_lossy().into_owned();
                let text = fs::read_to_string(&path).expect("a source");
                found.push(Source {
                    module: first.trim_end_matches(".rs").to_owned(),
                    pure: text.lines().next().is_some_and(|line| line.contains("PURE")),
                    code: strip(&text),
                    path: relative,
                });
            }
        }
    }
    assert!(found.len() > 20, "the sources were not found");
    found
}

fn is_test_file(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    path.components().any(|part| part.as_os_str() == "tests")
        || name.ends_with("tests.rs")
        || name.ends_with("_test.rs")
}

/// Code alone: comments go, and everything from the test module on.
fn strip(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or(text);
    code.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

/// The names that stand right before `::` where `start` says that a path begins.
fn first_names(code: &str, prefix: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices(prefix) {
        let before = code[..at].chars().next_back();
        if prefix.starts_with("crate")
            && before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_')
        {
            continue;
        }
        let rest = &code[at + prefix.len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 0;
            let end = group.find(|letter| {
                depth += i32::from(letter == '{') - i32::from(letter == '}');
                depth < 0
            });
            let mut depth = 0;
            let inside: String = group[..end.unwrap_or(group.len())]
                .chars()
                .filter(|letter| {
                    depth += i32::from(*letter == '{') - i32::from(*letter == '}');
                    depth == 0
                })
                .collect();
            names.extend(inside.split(',').map(|part| name_of(part.trim())));
        } else {
            names.insert(name_of(rest));
        }
    }
    names.remove("");
    names
}

fn name_of(path: &str) -> String {
    path.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
}

#[test]
fn imports_point_one_way() {
    let mut faults = Vec::new();
    for source in sources().iter().filter(|source| source.module != "lib") {
        let Some((_, allowed)) = MAY_USE.iter().find(|(module, _)| *module == source.module) else {
            faults.push(format!("{}: the module has no row in MAY_USE", source.path.display()));
            continue;
        };
        for name in first_names(&source.code, "crate::") {
            let is_module = MAY_USE.iter().any(|(module, _)| *module == name);
            if is_module && name != source.module && !allowed.iter().any(|some| some.contains(&name.as_str()))
            {
                faults.push(format!("{} uses {name}", source.path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The paths that a file names, from `crate::` or `super::` on, or from one of these names on; groups in braces are spread out.
fn paths(code: &str, children: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let starts = ["crate", "super"].into_iter().map(str::to_owned).chain(children.iter().cloned());
    for start in starts {
        for (at, _) in code.match_indices(&format!("{start}::")) {
            let before = code[..at].chars().next_back();
            if !before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_' || letter == ':') {
                spread(&code[at..], &mut Vec::new(), &mut found);
            }
        }
    }
    found
}

/// Reads one path, or a group of them, that follows the given beginning. Returns how long it was.
fn spread(code: &str, beginning: &mut Vec<String>, found: &mut Vec<Vec<String>>) -> usize {
    let mut at = 0;
    let depth = beginning.len();
    loop {
        let name = name_of(&code[at..]);
        at += name.len();
        if code[at..].starts_with('{') {
            at += 1;
            while !code[at..].starts_with('}') && at < code.len() {
                let step = spread(&code[at..], beginning, found);
                at += step.max(code[at..].chars().next().map_or(1, char::len_utf8));
            }
            at += 1;
            break;
        }
        if name.is_empty() {
            break;
        }
        beginning.push(name);
        if !code[at..].starts_with("::") {
            found.push(beginning.clone());
            break;
        }
        at += 2;
    }
    beginning.truncate(depth);
    at
}

/// Which files of a room use which others: by their places as modules.
fn uses(room: &str) -> BTreeMap<Vec<String>, BTreeSet<Vec<String>>> {
    let place = |path: &Path| -> Vec<String> {
        let parts = path.with_extension("");
        let parts = parts.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
        parts.filter(|part| part != "mod").collect()
    };
    let sources: Vec<(Vec<String>, Source)> = sources()
        .into_iter()
        .filter(|source| source.module == room)
        .map(|source| (place(&source.path), source))
        .collect();
    let places: BTreeSet<Vec<String>> = sources.iter().map(|(place, _)| place.clone()).collect();
    let mut uses = BTreeMap::new();
    for (place, source) in &sources {
        let below = |other: &&Vec<String>| other.len() == place.len() + 1 && other.starts_with(place);
        let children: Vec<String> =
            places.iter().filter(below).filter_map(|other| other.last().cloned()).collect();
        let used: BTreeSet<Vec<String>> = paths(&source.code, &children)
            .into_iter()
            .filter_map(|path| {
                let mut base = place.clone();
                let mut rest = path.as_slice();
                if rest.first().is_some_and(|first| first == "crate") {
                    (base, rest) = (Vec::new(), &rest[1..]);
                }
                while rest.first().is_some_and(|first| first == "super") {
                    base.pop();
                    rest = &rest[1..];
                }
                base.extend(rest.iter().cloned());
                // The file that holds what is named: the longest beginning that is one.
                (1..=base.len())
                    .rev()
                    .map(|length| base[..length].to_vec())
                    .find(|known| places.contains(known))
            })
            .filter(|used| used != place)
            .collect();
        uses.insert(place.clone(), used);
    }
    uses
}

/// A way from a file back to itself.
fn circle(uses: &BTreeMap<Vec<String>, BTreeSet<Vec<String>>>) -> Option<Vec<String>> {
    for start in uses.keys() {
        let mut came_from: BTreeMap<&Vec<String>, &Vec<String>> = BTreeMap::new();
        let mut open = vec![start];
        while let Some(place) = open.pop() {
            for next in uses.get(place).into_iter().flatten() {
                if next == start {
                    let mut way = vec![start.join("::"), place.join("::")];
                    let mut at = place;
                    while let Some(before) = came_from.get(at) {
                        way.push(before.join("::"));
                        at = before;
                    }
                    way.reverse();
                    return Some(way);
                }
                if !came_from.contains_key(next) {
                    came_from.insert(next, place);
                    open.push(next);
                }
            }
        }
    }
    None
}

/// On whatever way round, in every room: what two files need of each other is a third one's.
#[test]
fn no_two_files_of_a_room_use_each_other() {
    let mut read = 0;
    for (room, _) in MAY_USE {
        let uses = uses(room);
        read += usize::from(uses.values().any(|used| !used.is_empty()));
        if let Some(way) = circle(&uses) {
            panic!("{room}: {}", way.join(" uses "));
        }
    }
    assert!(read >= 16, "only {read} rooms have files that use each other: are they read at all?");
}

/// Data from outside may be no object: writing into it by index panics. `harness::json_object::put` is the way.
#[test]
fn no_json_is_written_by_index() {
    const WRITES: &[&str] = &["\"] = ", "\"].take()", "\"].as_object_mut()", "\"].as_array_mut()"];
    let mut faults = Vec::new();
    for source in sources() {
        for (number, line) in source.code.lines().enumerate() {
            if WRITES.iter().any(|write| line.contains(write)) {
                faults.push(format!("{}:{}: {}", source.path.display(), number + 1, line.trim()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_outside_crate_stays_at_home() {
    let manifest =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).expect("a manifest");
    let dependencies = manifest
        .lines()
        .skip_while(|line| *line != "[dependencies]")
        .take_while(|line| *line != "[dev-dependencies]")
        .filter(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, _)| name.trim().replace('-', "_"));
    let mut faults = Vec::new();
    let sources = sources();
    for dependency in dependencies {
        let Some((_, homes)) = HOMES.iter().find(|(name, _)| *name == dependency) else {
            faults.push(format!("{dependency} has no home in HOMES"));
            continue;
        };
        for source in &sources {
            let named = source.code.match_indices(&format!("{dependency}::")).any(|(at, _)| {
                let before = source.code[..at].chars().next_back();
                !before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_' || letter == ':')
            });
            if named && !homes.contains(&"*") && !homes.contains(&source.module.as_str()) {
                faults.push(format!("{} names {dependency}", source.path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn pure_files_wait_for_nothing() {
    let mut faults = Vec::new();
    for source in sources() {
        let value = VALUES.contains(&source.module.as_str());
        for name in PURE_NEVER.iter().filter(|_| source.pure || value) {
            if source.code.contains(&format!("{name}::")) {
                faults.push(format!("{} is pure and names {name}", source.path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A thread that the system refuses is an error of `os::blocking`, and a panic of tokio's own in the middle of an owner.
#[test]
fn work_that_blocks_has_one_home() {
    let astray: Vec<_> = sources()
        .iter()
        .filter(|one| {
            ["spawn_blocking(", "tokio::fs", "lookup_host(", "connect_async"]
                .iter()
                .any(|word| one.code.contains(word))
        })
        .map(|one| one.path.clone())
        .collect();
    assert!(astray.is_empty(), "use os::blocking, os::addresses_of or os::connect_to: {astray:?}");
}

/// Rooms whose files a program in a sandbox could replace, and what of `std::fs` is left in them, with the reason.
const HELD_ROOMS: &[(&str, &[(&str, &str)])] = &[
    ("record", &[]),
    (
        "harness",
        &[
            ("folder.rs", "removes its own folder; std follows no link there"),
            ("folder_owner.rs", "removes folders by their names; std follows no link there"),
            ("own_place.rs", "makes links in a new folder, before any program can write it"),
            ("package.rs", "looks for programs on PATH"),
            ("replay_file.rs", "reads what its user names, pipes too"),
            ("replay_record.rs", "lists a folder for a hint, and names the type of an open file"),
            ("request.rs", "asks whether the working directory can be written, by a file without a name"),
            ("session_log.rs", "lists folders; what it finds is opened by `open_regular`"),
        ],
    ),
    ("acp", &[("young_chat.rs", "lists folders; what it finds is opened by `open_regular`")]),
    (
        "copilot",
        &[
            ("event_log.rs", "makes a session of its own; what it reads is opened by `open_regular`"),
            ("session_lock.rs", "lists and removes locks of a runtime that is in no sandbox"),
        ],
    ),
    (
        "fleet/worker",
        &[
            ("checkout/folder.rs", "locks and removes beside what a job's program can write"),
            ("checkout/mirror.rs", "files beside what a job's program can write"),
            ("checkout/mod.rs", "notes beside what a job's program can write"),
            ("mod.rs", "reads the machine's name"),
        ],
    ),
    (
        "process",
        &[
            ("census.rs", "reads /proc"),
            ("command.rs", "names the type of an open file"),
            ("guard/cgroup.rs", "the kernel's own files"),
            ("guard/execute.rs", "names the type of an open file"),
            ("guard/leash.rs", "the kernel's own files"),
            ("guard/image.rs", "a file without a name, in a folder of random name"),
            ("save.rs", "names the type of an open file"),
            ("wiring.rs", "/dev/null, and pipes"),
        ],
    ),
];

/// This process is in no sandbox: what it opens by a path, a program in one may have replaced by a link (`os::HeldFolder`).
#[test]
fn files_that_a_sandboxed_program_can_replace_are_opened_in_one_place() {
    let mut faults = Vec::new();
    let sources = sources();
    for (room, free) in HELD_ROOMS {
        for (file, _) in *free {
            let path = Path::new(room).join(file);
            let names_it = sources.iter().any(|one| one.path == path && names_files(&one.code));
            if !names_it {
                faults.push(format!("{} needs no exception", path.display()));
            }
        }
        for source in sources.iter().filter(|one| one.path.starts_with(room)) {
            let is_free = free.iter().any(|(file, _)| source.path == Path::new(room).join(file));
            if !is_free && names_files(&source.code) {
                faults.push(format!("{} names std::fs: use os::HeldFolder", source.path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn names_files(code: &str) -> bool {
    ["std::fs", "OpenOptions", "File::open", "File::create", ".read_dir()"]
        .iter()
        .any(|word| code.contains(word))
}

#[test]
fn the_reader_of_imports_reads_them() {
    let code = "use crate::{error::Error, process::{Spec, Stream}, retry};\nlet x = crate::http::get();";
    let names: Vec<String> = first_names(code, "crate::").into_iter().collect();
    assert_eq!(names, ["error", "http", "process", "retry"]);
    let code =
        "use super::{a::{B, c::D}, e};\nlet x = crate::f::g(super::super::h::I); mine::j(); other::k();";
    let mut read: Vec<String> =
        paths(code, &["mine".to_owned()]).iter().map(|path| path.join("::")).collect();
    read.sort();
    assert_eq!(
        read,
        ["crate::f::g", "mine::j", "super::a::B", "super::a::c::D", "super::e", "super::super::h::I"]
    );
    assert!(!strip("a // crate::x\n#[cfg(test)]\nmod tests { crate::y }").contains("crate"));
}

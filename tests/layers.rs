//! The laws of the house that cargo cannot check (ARCHITECTURE.md). Cargo checks the direction of imports between crates.
//!
//! Imports within a crate are read from the text of the sources: paths that begin with `crate::`, `super::` or a sibling's name.

#![expect(clippy::expect_used, reason = "a panic is a test's report, in its helpers too")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The modules at the root of a crate that another one of the same crate may use. Modules that are not listed may use none.
const MAY_USE: &[(&str, &str, &[&str])] = &[
    ("ground", "json", &["line"]),
    ("ground", "json_filter", &["json", "line", "text"]),
    ("ground", "text", &["line"]),
    ("ground", "random", &["hex"]),
    ("ground", "keep", &["line"]),
    ("ground", "redaction", &["error", "words"]),
    ("ground", "login", &["percent", "redaction"]),
    ("ground", "retry", &["error"]),
    ("ground", "os", &["error", "lock", "mpsc", "signal", "task"]),
    ("ground", "record", &["error", "json", "keep", "line", "lock", "random", "redaction", "os", "task"]),
    ("ground", "tokens", &["json"]),
    ("ground", "trace", &["os", "record"]),
    ("agents", "harness", &["model"]),
    ("agents", "acp", &["model", "harness"]),
];
/// The folders and files of a module, in their order: each may use those before it.
const ORDERS: &[(&str, &str, &[&str])] = &[
    (
        "agents",
        "harness",
        &[
            "clip",
            "mcp_server",
            "event",
            "level",
            "spending",
            "launch",
            "evidence",
            "provider",
            "session_in_use",
            "clock",
            "folder",
            "budget",
            "verdict",
            "agent_request",
            "limit",
            "program",
            "turn",
            "travel",
            "replay",
        ],
    ),
    ("agents", "acp", &["wire", "question", "turn", "opening", "state", "owner", "session", "face"]),
];
/// The crates whose modules are ruled by [`MAY_USE`].
const ROOMS: &[&str] = &["ground", "wires", "agents"];

/// A file that says PURE in its first line names none of these.
const PURE_NEVER: &[&str] = &["tokio", "mpsc", "reqwest", "napi", "inotify"];
/// Values of `ground` are pure whether they say so or not.
const VALUES: &[&str] = &[
    "error",
    "hex",
    "json",
    "json_filter",
    "keep",
    "line",
    "percent",
    "random",
    "redaction",
    "retry",
    "signal",
    "text",
    "tokens",
];

struct Source {
    /// `sheepdog` is the addon.
    home: String,
    /// Below the crate's `src`.
    path: PathBuf,
    /// Without comments and tests.
    code: String,
    is_pure: bool,
}

impl Source {
    /// The module at the root of the crate that the file belongs to.
    fn room(&self) -> String {
        let first = self.path.components().next().expect("a name").as_os_str().to_string_lossy().into_owned();
        first.trim_end_matches(".rs").to_owned()
    }

    fn shown(&self) -> String {
        format!("{}: {}", self.home, self.path.display())
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The crates by name, and the folders of their manifests.
fn crates() -> Vec<(String, PathBuf)> {
    let mut found = vec![("sheepdog".to_owned(), root().to_owned())];
    for entry in fs::read_dir(root().join("crates")).expect("a folder").map(|entry| entry.expect("an entry"))
    {
        found.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
    }
    found
}

fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    for (home, folder) in crates() {
        let below = folder.join("src");
        let mut open = vec![below.clone()];
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry")) {
                let path = entry.path();
                if path.is_dir() {
                    open.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") && !is_test_file(&path)
                {
                    let text = fs::read_to_string(&path).expect("a source");
                    found.push(Source {
                        home: home.clone(),
                        is_pure: text.lines().next().is_some_and(|line| line.contains("PURE")),
                        code: strip(&text),
                        path: path.strip_prefix(&below).expect("below src").to_path_buf(),
                    });
                }
            }
        }
    }
    assert!(found.len() > 300, "only {} sources were found", found.len());
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
    let code = code.split("#[cfg(all(test,").next().unwrap_or(code);
    // An address in a string is no comment.
    let comment =
        |line: &str| line.match_indices("//").map(|(at, _)| at).find(|at| !line[..*at].ends_with(':'));
    code.lines().map(|line| &line[..comment(line).unwrap_or(line.len())]).collect::<Vec<_>>().join("\n")
}

fn name_of(path: &str) -> String {
    path.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
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

/// Which files of a crate use which others. A file is named by its path as a module, from the name of the crate on.
fn uses(home: &str, sources: &[Source]) -> BTreeMap<Vec<String>, BTreeSet<Vec<String>>> {
    let place = |source: &Source| -> Vec<String> {
        let path = source.path.with_extension("");
        let parts = path.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
        let parts = parts.filter(|part| part != "mod" && part != "lib");
        [home.to_owned()].into_iter().chain(parts).collect()
    };
    let sources: Vec<(Vec<String>, &Source)> =
        sources.iter().filter(|source| source.home == home).map(|source| (place(source), source)).collect();
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
                    (base, rest) = (vec![home.to_owned()], &rest[1..]);
                }
                while rest.first().is_some_and(|first| first == "super") {
                    base.pop();
                    rest = &rest[1..];
                }
                base.extend(rest.iter().cloned());
                // The twin of this system is used under the name that all of them have.
                for part in base.iter_mut().filter(|part| *part == "system") {
                    "unix".clone_into(part);
                }
                // The file that defines the name is the longest beginning of the path that is a file.
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

/// Within the crates that hold several mechanisms, modules use each other in one direction.
#[test]
fn imports_within_a_crate_point_one_way() {
    let sources = sources();
    let mut faults = Vec::new();
    for home in ROOMS {
        for (place, used) in uses(home, &sources) {
            let Some(room) = place.get(1) else { continue };
            let allowed = MAY_USE.iter().find(|(of, module, _)| of == home && module == room);
            for other in used.iter().filter_map(|path| path.get(1)).filter(|other| *other != room) {
                if !allowed.is_some_and(|(.., allowed)| allowed.contains(&other.as_str())) {
                    faults.push(format!("{} uses {home}::{other}", place.join("::")));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Faults against one of [`ORDERS`]. A room that is not listed is one, and so is a name of a room that is taken from the module
/// above it, because the order can't be read from that.
fn out_of_order(
    uses: &BTreeMap<Vec<String>, BTreeSet<Vec<String>>>,
    module: &str,
    order: &[&str],
) -> Vec<String> {
    let position =
        |path: &[String]| path.get(2).and_then(|room| order.iter().position(|known| known == room));
    let within = |path: &[String]| path.get(1).is_some_and(|name| name == module);
    let mut faults = Vec::new();
    for (place, used) in uses.iter().filter(|(place, _)| place.len() > 2 && within(place)) {
        let Some(at) = position(place) else {
            faults.push(format!("{} is in no order", place.join("::")));
            continue;
        };
        for other in used.iter().filter(|other| within(other)) {
            if position(other).is_none_or(|below| below > at) {
                faults.push(format!("{} uses {}", place.join("::"), other.join("::")));
            }
        }
    }
    faults
}

/// The rooms of a large module have an order, as the modules of a crate do.
#[test]
fn rooms_of_a_module_use_those_before_them() {
    let sources = sources();
    for (home, module, order) in ORDERS {
        let uses = uses(home, &sources);
        let faults = out_of_order(&uses, module, order);
        assert!(faults.is_empty(), "{}", faults.join("\n"));

        // The law is not empty: the reverse order is broken.
        let reverse: Vec<&str> = order.iter().rev().copied().collect();
        assert!(out_of_order(&uses, module, &reverse).len() > order.len());
    }
}

/// Two files that need each other's items share them in a third file.
#[test]
fn files_of_a_crate_use_each_other_without_cycles() {
    let sources = sources();
    for (home, _) in crates() {
        let uses = uses(&home, &sources);
        assert!(uses.values().any(|used| !used.is_empty()), "{home}: no imports were found");
        if let Some(way) = circle(&uses) {
            panic!("{}", way.join(" uses "));
        }
    }
}

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

/// Cargo refuses a name that a crate does not declare. This test finds declared crates that nobody names.
#[test]
fn every_declared_crate_is_named() {
    let sources = sources();
    let mut faults = Vec::new();
    for (home, folder) in crates() {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
        let declared = manifest
            .lines()
            .skip_while(|line| {
                !(line.starts_with('[') && line.ends_with("dependencies]") && !line.contains("workspace"))
            })
            .take_while(|line| *line != "[dev-dependencies]")
            .filter(|line| !line.starts_with(['[', '#']))
            .filter_map(|line| line.split_once([' ', '.']))
            .map(|(name, _)| name.replace('-', "_"))
            // For one of its features alone.
            .filter(|name| name != "bitflags");
        for name in declared {
            let is_named = sources.iter().any(|source| source.home == home && names(&source.code, &name));
            if !is_named {
                faults.push(format!("{home} declares {name} and does not name it"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn names(code: &str, outside: &str) -> bool {
    code.match_indices(&format!("{outside}::")).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        !before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_' || letter == ':')
    })
}

#[test]
fn pure_files_wait_for_nothing() {
    let mut faults = Vec::new();
    for source in sources() {
        let is_value = source.home == "ground" && VALUES.contains(&source.room().as_str());
        for name in PURE_NEVER.iter().filter(|_| source.is_pure || is_value) {
            if source.code.contains(&format!("{name}::")) {
                faults.push(format!("{} is pure and names {name}", source.shown()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The folder of the one engine that speaks to NATS, below the sources of the fleet.
const NATS: &str = "engine/nats";
/// Words of NATS. A `subject` or a `consumer` elsewhere would tie the fleet to that server.
const NATS_WORDS: &[&str] = &["async_nats", "jetstream", "subject", "consumer", "$kv", "$js", "err_code"];

#[test]
fn the_names_of_nats_stay_in_its_engine() {
    let mut faults = Vec::new();
    for source in sources().iter().filter(|source| !source.path.starts_with(NATS)) {
        let code = source.code.to_lowercase();
        let is_fleet = source.home == "fleet";
        for word in NATS_WORDS.iter().filter(|word| is_fleet || **word == "async_nats") {
            if code.contains(word) {
                faults.push(format!("{} names {word}", source.shown()));
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
        .map(Source::shown)
        .collect();
    assert!(astray.is_empty(), "use os::blocking, os::addresses_of or os::connect_to: {astray:?}");
}

/// Calls that wait for a disk, or sleep.
const WAITS: &[&str] = &[
    "fs::",
    "File::open",
    "File::create",
    "OpenOptions",
    "private_files()",
    "private_folders()",
    "HeldFolder::",
    "open_regular(",
    ".read_dir()",
    ".metadata()",
    ".symlink_metadata()",
    ".canonicalize()",
    "thread::sleep",
];
/// Functions that take work to a thread that may block.
const TAKEN_AWAY: &[&str] = &["blocking(", "on_disk(", "hand_over("];

/// The part of the text up to the bracket that closes the one before it.
fn enclosed(text: &str) -> &str {
    let mut depth = 1;
    let end = text.find(|letter| {
        match letter {
            '(' | '{' => depth += 1,
            ')' | '}' => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    &text[..end.unwrap_or(text.len())]
}

/// The bodies of asynchronous functions and blocks, without the work that they hand to other threads.
fn asynchronous(code: &str) -> String {
    let mut found = String::new();
    for (at, _) in code.match_indices("async ") {
        let rest = &code[at + "async ".len()..];
        // A block, or the function that begins here.
        let open = match rest.starts_with("fn ") {
            true => rest.find(['{', ';']).filter(|open| rest[*open..].starts_with('{')),
            false => rest.find('{').filter(|open| matches!(rest[..*open].trim(), "" | "move")),
        };
        let Some(open) = open else { continue };
        let mut body = enclosed(&rest[open + 1..]);
        while let Some((word, at)) =
            TAKEN_AWAY.iter().filter_map(|word| Some((word, body.find(word)?))).min_by_key(|(_, at)| *at)
        {
            found.push_str(&body[..at]);
            let work = &body[at + word.len()..];
            body = &work[enclosed(work).len()..];
        }
        found.push_str(body);
        found.push('\n');
    }
    found
}

/// A disk can hang, and a thread of tokio that waits for it stops all runs that it serves.
#[test]
fn asynchronous_code_waits_for_no_disk() {
    let mut faults = Vec::new();
    // A server for tests.
    for source in sources().iter().filter(|one| !one.path.ends_with("test_server.rs")) {
        let code = asynchronous(&source.code);
        for line in code.lines().filter(|line| WAITS.iter().any(|word| line.contains(word))) {
            faults.push(format!("{}: {}", source.shown(), line.trim()));
        }
    }
    assert!(faults.is_empty(), "hand it to os::blocking:\n{}", faults.join("\n"));

    let code =
        "async fn a() { on_disk(|| fs::read(b)).await; c }\nasync move { fs::write(d) }\nfn e() { fs::f() }";
    assert_eq!(asynchronous(code), " ).await; c \n fs::write(d) \n");
}

/// Words that name a system, or that only one family of systems has.
const SYSTEM_WORDS: &[&str] = &[
    "nix::",
    "libc::",
    "inotify::",
    "windows_sys::",
    "std::os::",
    "io::unix",
    "net::unix",
    "target_os",
    "cfg(unix",
    "cfg(windows",
    "cfg!(unix",
    "cfg!(windows",
    "\"/proc",
];
/// The places that may know a system: a crate, and the beginning of a path in it.
const SYSTEM_PLACES: &[(&str, &str)] = &[
    ("ground", "os"),
    ("guard", ""),
    ("process", "fence"),
    ("process", "guard"),
    // Its one line chooses the twin.
    ("process", "launch.rs"),
    ("process", "launch/unix"),
    ("process", "launch/windows"),
];
/// Crates that only one family of systems has.
const SYSTEM_CRATES: &[&str] = &["nix", "libc", "inotify", "windows-sys"];

fn names_system(code: &str) -> Option<&'static str> {
    SYSTEM_WORDS.iter().copied().find(|word| code.contains(word))
}

/// Windows has twins of `os/unix` and of `launch/unix`, with the same names. Everything else is the same on all systems.
#[test]
fn a_system_is_named_in_its_own_places_only() {
    let sources = sources();
    let mut faults = Vec::new();
    for (home, place) in SYSTEM_PLACES {
        let mut those = sources.iter().filter(|one| one.home == *home && one.path.starts_with(place));
        if !those.any(|one| names_system(&one.code).is_some()) {
            faults.push(format!("{home}: {place} needs no exception"));
        }
    }
    for source in &sources {
        let may =
            SYSTEM_PLACES.iter().any(|(home, place)| source.home == *home && source.path.starts_with(place));
        if let Some(word) = names_system(&source.code).filter(|_| !may) {
            faults.push(format!("{} names {word}: give `ground::os` a function for it", source.shown()));
        }
    }
    for (home, folder) in
        crates().iter().filter(|(home, _)| !SYSTEM_PLACES.iter().any(|(may, _)| may == home))
    {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
        let own = manifest.split("[dev-dependencies]").next().unwrap_or_default();
        // The versions of the workspace are in the root manifest.
        let own = own.split("[package]").nth(1).unwrap_or(own);
        for name in SYSTEM_CRATES.iter().filter(|name| own.contains(&format!("\n{name}"))) {
            faults.push(format!("{home} declares {name}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A crate, a folder in it, and the files of that folder that may use `std::fs`, with the reason.
type HeldRoom = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

/// Folders whose code touches files that a program in a sandbox could replace.
const HELD_ROOMS: &[HeldRoom] = &[
    ("ground", "record", &[]),
    (
        "agents",
        "harness",
        &[
            ("folder/mod.rs", "removes its own folder; std follows no link there"),
            ("folder/state_folder.rs", "makes links in a new folder, before any program can write it"),
            ("replay/file.rs", "reads what its user names, pipes too"),
            ("replay/record.rs", "lists a folder for a hint, and names the type of an open file"),
            ("provider/session_log.rs", "lists folders; what it finds is opened by `open_regular`"),
        ],
    ),
    (
        "agents",
        "acp",
        &[("opening/resume_delay.rs", "lists folders; what it finds is opened by `open_regular`")],
    ),
    (
        "copilot",
        "",
        &[
            ("event_log.rs", "makes a session of its own; what it reads is opened by `open_regular`"),
            ("session_lock.rs", "lists and removes locks of a runtime that is in no sandbox"),
        ],
    ),
    ("fleet", "worker", &[]),
    (
        "git",
        "",
        &[
            ("folder.rs", "locks and removes beside what an agent's program can write"),
            ("mirror.rs", "files beside what a job's program can write"),
            ("job_checkout/mod.rs", "notes beside what a job's program can write"),
            ("ledger.rs", "notes beside what an agent's program can write"),
            ("desk.rs", "copies an index of the user's, or of a repository that no agent has seen yet"),
            ("setting.rs", "fills git directories that no agent has seen yet"),
            ("worktree.rs", "fills a checkout that no agent has seen yet; removes a file beside it"),
            ("harvest.rs", "writes copies; what it reads is opened by `HeldFolder`"),
            ("snapshot.rs", "asks for the kinds and sizes of entries, and opens none"),
            ("room.rs", "a folder of ours, in the user's caches"),
            ("changes.rs", "asks whether entries exist in the user's folder; removes what it wrote there"),
            ("journal.rs", "reads and removes what an apply wrote in the user's folder"),
        ],
    ),
    ("egress", "", &[]),
    (
        "process",
        "",
        &[
            ("command.rs", "names the type of an open file"),
            ("resolved_command.rs", "names the type of an open file"),
            ("echo.rs", "names the type of an open file"),
            ("fence/listeners.rs", "reads /proc"),
            ("fence/notice.rs", "reads /proc"),
            ("fence/support.rs", "reads /proc"),
            ("guard/cgroup.rs", "the kernel's own files"),
            ("guard/trial.rs", "/dev/null"),
            ("command_fault.rs", "reads the first line of a program that the system refused, for a message"),
            (
                "launch/unix/session.rs",
                "reads the first line of a program that the kernel can't execute, as a shell does",
            ),
            ("guard/image.rs", "a file without a name, in a folder of random name"),
            ("launch/unix/ways.rs", "asks whether paths exist, and opens none"),
            ("launch/unix/wiring.rs", "/dev/null, and pipes"),
            ("launch/windows/wiring.rs", "NUL, and pipes"),
            ("save.rs", "names the type of an open file"),
        ],
    ),
];

/// The host is in no sandbox. A program in one may have replaced any file by a link (`os::HeldFolder`).
#[test]
fn files_that_a_sandboxed_program_can_replace_are_opened_in_one_place() {
    let mut faults = Vec::new();
    let sources = sources();
    for (home, room, free) in HELD_ROOMS {
        for (file, _) in *free {
            let path = Path::new(room).join(file);
            if !sources.iter().any(|one| one.home == *home && one.path == path && names_files(&one.code)) {
                faults.push(format!("{home}: {} needs no exception", path.display()));
            }
        }
        for source in sources.iter().filter(|one| one.home == *home && one.path.starts_with(room)) {
            let is_free = free.iter().any(|(file, _)| source.path == Path::new(room).join(file));
            if !is_free && names_files(&source.code) {
                faults.push(format!("{} names std::fs: use os::HeldFolder", source.shown()));
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
fn forgetful(code: &str) -> Vec<String> {
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
        let is_whole = code.match_indices(&format!("{name} {{")).any(|(at, _)| {
            let pattern = code[at..].split('}').next().unwrap_or_default();
            let after = &code[(at + pattern.len() + 1).min(code.len())..];
            after.trim_start_matches(|letter: char| letter == ')' || letter.is_whitespace()).starts_with('=')
                && !pattern.contains("..")
                && fields.iter().all(|field| pattern.contains(field.as_str()))
        });
        if !is_whole && !NO_OPTIONS.contains(&name.as_str()) {
            found.push(name);
        }
    }
    found
}

#[test]
fn options_from_javascript_are_taken_apart_by_name() {
    let sources = sources();
    let edge = sources.iter().filter(|source| source.home == "sheepdog");
    let faults: Vec<String> = edge.clone().flat_map(|source| forgetful(&source.code)).collect();
    assert!(faults.is_empty(), "let NAME {{ every, field }} = spec; is missing for {}", faults.join(", "));

    // An option that is added and forgotten is seen.
    let process = edge.into_iter().find(|source| source.path.ends_with("process.rs")).expect("a file");
    let more = process
        .code
        .replace("pub struct RunSpec {", "pub struct RunSpec {\n    pub probe_ms: Option<Millis>,");
    assert_eq!(forgetful(&more), ["RunSpec"]);
    let rest = process.code.replace("let RunSpec {", "let RunSpec { ..");
    assert_eq!(forgetful(&rest), ["RunSpec"]);
}

/// What the start of a record holds is decided for each option: the pattern names them all.
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

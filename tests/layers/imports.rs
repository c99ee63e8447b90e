//! The laws of imports within a crate. They are read from the text: paths that begin with `crate::`, `super::` or a sibling.

use crate::source::{Source, crates, sources, strip};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The modules at the root of a crate that another one of the same crate may use. Modules that are not listed may use none.
const MAY_USE: &[(&str, &str, &[&str])] = &[
    ("ground", "error", &["named"]),
    ("ground", "signal", &["named"]),
    ("ground", "window", &["mpsc"]),
    ("ground", "json", &["line", "text"]),
    ("ground", "json_filter", &["json", "line", "text"]),
    ("ground", "text", &["line"]),
    ("ground", "random", &["hex"]),
    ("ground", "keep", &["line"]),
    ("ground", "redaction", &["error", "words"]),
    ("ground", "login", &["percent", "redaction"]),
    ("ground", "retry", &["error", "named"]),
    ("ground", "os", &["error", "lock", "mpsc", "signal", "task"]),
    (
        "ground",
        "record",
        &["error", "json", "keep", "line", "lock", "named", "random", "redaction", "os", "task"],
    ),
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

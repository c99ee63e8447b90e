//! The laws of waiting: which code may wait, and in which place.

use crate::source::{Source, sources};

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

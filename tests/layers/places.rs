//! The laws of names that have places of their own: of systems, of files that a sandboxed program can replace, of NATS.

use crate::source::{Source, crates, sources};
use std::fs;
use std::path::Path;

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

/// A program may leave more levels of folders than a thread has stack. `ground::os::remove_tree` needs no recursion.
#[test]
fn folders_are_removed_in_one_way() {
    let is_home = |source: &Source| source.home == "ground" && source.path.starts_with("os");
    let found =
        sources().into_iter().filter(|source| !is_home(source) && source.code.contains("remove_dir_all"));
    assert_eq!(found.map(|source| source.shown()).collect::<Vec<_>>(), Vec::<String>::new());
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

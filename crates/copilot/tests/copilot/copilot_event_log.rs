//! Logs on disk: reading them, salvaging them, and that they stay unchanged.

#![expect(clippy::unwrap_used, reason = "a panic is a test's report, in its helpers too")]

use copilot::event_log::{inspect, log_path, log_size, salvage};
use copilot::resume::LogState;
use std::fs;
use std::path::Path;

fn id(number: u32) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

fn event(number: u32, kind: &str, data: &str) -> String {
    format!(
        r#"{{"id":"{}","timestamp":"2026-01-01T00:00:00Z","parentId":null,"type":"{kind}","data":{data}}}"#,
        id(number)
    )
}

fn lines() -> Vec<String> {
    vec![
        event(1, "session.start", r#"{"sessionId":"old"}"#),
        event(2, "user.message", r#"{"content":"hi \u2028"}"#),
        event(3, "assistant.message", r#"{"content":"hello"}"#),
        event(4, "user.message", r#"{"content":"more"}"#),
    ]
}

fn write(home: &Path, session: &str, bytes: impl AsRef<[u8]>) {
    let path = log_path(home, session);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

#[test]
fn tells_absent_empty_and_used_logs_apart() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    assert_eq!(inspect(home, "none").log, LogState::Absent);
    fs::create_dir_all(home.join("session-state/created")).unwrap();
    fs::write(home.join("session-state/created/workspace.yaml"), "id: created\n").unwrap();
    assert_eq!(inspect(home, "created").log, LogState::Absent);
    write(home, "empty", "");
    assert_eq!((inspect(home, "empty").log, log_size(home, "empty")), (LogState::Empty, 0));
    write(home, "used", lines().join("\n") + "\n");
    let used = inspect(home, "used");
    assert_eq!(
        (used.log, used.turns, used.last_event_id, used.bad_line),
        (LogState::Turns, 2, Some(id(4)), None)
    );
    assert!(log_size(home, "used") > 0);
    write(home, "fresh", event(1, "session.start", "{}"));
    assert_eq!(inspect(home, "fresh").log, LogState::NoTurns);
    assert_eq!(inspect(&home.join("nowhere"), "x").log, LogState::Absent);
}

#[test]
fn an_id_that_leaves_its_folder_is_not_followed() {
    let home = tempfile::tempdir().unwrap();
    for id in ["", "..", "../x", "a/b", "a\\b", "a\0b"] {
        assert_eq!(inspect(home.path(), id).log, LogState::Unknown, "{id:?}");
        assert_eq!(log_size(home.path(), id), 0);
    }
}

#[test]
fn names_the_first_bad_line() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let good = lines();
    let cases: [(&str, String, LogState, Option<u64>); 8] = [
        ("middle", format!("{}\n{}\n{{oops\n{}\n", good[0], good[1], good[2]), LogState::Turns, Some(3)),
        ("first", format!("garbage\n{}\n{}\n", good[0], good[1]), LogState::Turns, Some(1)),
        ("no-start", format!("{}\n{}\n", good[1], good[2]), LogState::Turns, Some(1)),
        ("only-garbage", "\u{1}\u{2}\n".to_owned(), LogState::Unreadable, Some(1)),
        (
            "envelope",
            format!("{}\n{{\"type\":\"user.message\",\"data\":{{}}}}\n", good[0]),
            LogState::Unreadable,
            Some(2),
        ),
        ("cut", format!("{}\n{}\n{}", good[0], good[1], &good[2][..20]), LogState::Turns, Some(3)),
        ("zeros", format!("{}\n{}\n\0\0\0", good[0], good[1]), LogState::Turns, None),
        ("unknown-type", format!("{}\n{}\n", good[0], event(9, "brand.new", "{}")), LogState::NoTurns, None),
    ];
    for (name, text, log, bad_line) in cases {
        write(home, name, text);
        let found = inspect(home, name);
        assert_eq!((found.log, found.bad_line), (log, bad_line), "{name}");
    }
}

#[test]
fn turns_that_were_rewound_do_not_count() {
    let home = tempfile::tempdir().unwrap();
    let mut log = lines();
    log.push(event(
        5,
        "session.snapshot_rewind",
        &format!(r#"{{"upToEventId":"{}","eventsRemoved":3}}"#, id(2)),
    ));
    write(home.path(), "over", log.join("\n"));
    let found = inspect(home.path(), "over");
    assert_eq!((found.log, found.turns), (LogState::NoTurns, 0));
    log.push(event(6, "user.message", r#"{"content":"again"}"#));
    write(home.path(), "over", log.join("\n"));
    assert_eq!(inspect(home.path(), "over").turns, 1);
}

#[test]
fn salvages_the_valid_lines_and_leaves_the_original_alone() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let good = lines();
    let text = format!("{}\nbroken\n{}\n{}\n{}\n{{\"cut", good[0], good[1], good[2], good[3]);
    write(home, "old", &text);
    fs::write(home.join("session-state/old/workspace.yaml"), "id: old\ncwd: /x\n").unwrap();
    let made = salvage(home, "old", &id(77)).unwrap();
    assert_eq!((made.session_id.as_str(), made.kept), (id(77).as_str(), 4));
    let left_out: Vec<u64> = made.left_out.iter().map(|left| left.line).collect();
    assert_eq!(left_out, [2, 6]);
    assert_eq!(fs::read_to_string(log_path(home, "old")).unwrap(), text);
    let copy = inspect(home, &id(77));
    assert_eq!((copy.log, copy.turns, copy.bad_line), (LogState::Turns, 2, None));
    let first = fs::read_to_string(log_path(home, &id(77))).unwrap();
    assert!(first.lines().next().unwrap().contains(&id(77)));
    assert!(
        fs::read_to_string(home.join("session-state").join(id(77)).join("workspace.yaml"))
            .unwrap()
            .contains(&id(77))
    );
}

#[test]
fn reads_what_the_runtime_reads_and_salvages_more() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let text = lines().join("\n");
    let at = text.find("more").unwrap();
    let latin = [&text.as_bytes()[..at], b"\xe9", &text.as_bytes()[at..]].concat();
    let zeros = format!("\n{}", "\0".repeat(9));
    // With the bad line of each, where the runtime refuses it.
    let logs: [(&str, Vec<u8>, Option<u64>); 5] = [
        ("a byte order mark", format!("\u{feff}{text}").into(), None),
        ("bytes that are no UTF-8", latin, None),
        ("lines of Windows", text.replace('\n', "\r\n").into(), None),
        ("zeros at the end", format!("{text}{zeros}").into(), None),
        ("zeros in front of a line", text.replacen('\n', &zeros, 1).into(), Some(2)),
    ];
    for (number, (name, log, bad_line)) in (100..).zip(logs) {
        write(home, "old", &log);
        let found = inspect(home, "old");
        assert_eq!(found.bad_line, bad_line, "{name}");
        let made = salvage(home, "old", &id(number)).unwrap();
        assert_eq!((made.kept, made.left_out.len()), (4, 0), "{name}");
        let copy = inspect(home, &id(number));
        assert_eq!((copy.turns, copy.bad_line), (2, None), "{name}");
        assert!(fs::read_to_string(log_path(home, &id(number))).is_ok(), "{name}");
    }
}

#[test]
fn the_id_of_a_salvaged_session_is_all_that_changes_in_its_workspace() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    write(home, "s", lines().join("\n").replace("old", "s"));
    fs::write(home.join("session-state/s/workspace.yaml"), "id: s\ncwd: /users/s\nname: s\n").unwrap();
    salvage(home, "s", &id(77)).unwrap();
    let copied = fs::read_to_string(home.join("session-state").join(id(77)).join("workspace.yaml"));
    assert_eq!(copied.unwrap(), format!("id: {}\ncwd: /users/s\nname: s\n", id(77)));
}

#[test]
fn there_is_nothing_to_salvage_of_a_session_without_a_log() {
    let home = tempfile::tempdir().unwrap();
    assert!(salvage(home.path(), "none", &id(1)).is_err());
    assert!(salvage(home.path(), "../x", &id(1)).is_err());
}

//! The pure parts of the protocol that the guard reads /proc and files with.

#[test]
fn the_status_of_a_host_is_the_52nd_field() {
    use guard::protocol::ProcessState;
    let line = |letter: &str, flags: u32, status: u32| {
        let rest = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42";
        format!("42 (a) b) {letter} 7 8 9 0 -1 {flags} {rest} {status}\n")
    };
    for (letter, flags, status, is_exiting) in [
        ("R", 0x40_0000, 0, false),
        ("R", 0x40_0004, 15, true),
        ("Z", 0x40_000c, 9, true),
        ("X", 0, 256, true),
    ] {
        let state = ProcessState::parse(line(letter, flags, status).as_bytes()).unwrap();
        assert_eq!((state.status, state.is_exiting()), (status, is_exiting), "{letter}");
    }
    let own = std::fs::read("/proc/self/stat").unwrap();
    assert!(!ProcessState::parse(&own).unwrap().is_exiting());
}

#[test]
fn a_number_is_looked_up_by_the_level_of_its_namespace() {
    use guard::protocol::NamespacePids;
    let status = b"Name:\tx\nPid:\t900\nNSpid:\t900\t30\t7\nNSsid:\t1\t0\t0\n";
    let pids = NamespacePids::parse(status).unwrap();
    assert_eq!(
        (pids.depth(), pids.at(0), pids.at(1), pids.at(2), pids.at(3)),
        (2, Some(900), Some(30), Some(7), None)
    );
    assert_eq!(NamespacePids::parse(b"Name:\tx\nPid:\t900\n"), None);
    assert_eq!(NamespacePids::parse(b"NSpid:\t5\n").unwrap().depth(), 0);
}

#[test]
fn only_text_in_the_first_line_is_a_script() {
    use guard::protocol::begins_as_text;
    for (start, is_text) in [
        (&b""[..], true),
        (b"echo hi\n", true),
        (b"echo hi\n\0binary data behind it", true),
        (b"\xc3\xa4 = 1", true),
        (b"\x7fELF\x02\x01\x01\0\0\0", false),
        (b"MZ\x90\0\x03\n", false),
        (b"\xcf\xfa\xed\xfe\x07\0\0\x01", false),
    ] {
        assert_eq!(begins_as_text(start), is_text, "{start:?}");
    }
}

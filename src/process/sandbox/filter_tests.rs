//! The filter, run as the kernel runs it.

use super::*;

/// What a call comes to: 0 when it is let through.
fn run(program: &[Instruction], architecture: u32, number: u32, arguments: [u32; 4]) -> u32 {
    let mut at = 0;
    let mut accumulator = 0;
    loop {
        let Instruction { code, then, otherwise, operand } = program[at];
        at += 1;
        let mut jump = |holds: bool| at += usize::from(if holds { then } else { otherwise });
        match code {
            LOAD => {
                accumulator = match operand {
                    NUMBER => number,
                    ARCHITECTURE => architecture,
                    low => arguments[(low as usize - 16) / 8],
                }
            }
            AND => accumulator &= operand,
            JUMP_EQUAL => jump(accumulator == operand),
            JUMP_AT_LEAST => jump(accumulator >= operand),
            JUMP_ANY_BIT => jump(accumulator & operand != 0),
            RETURN => return if operand == ALLOW { 0 } else { operand & 0xffff },
            _ => panic!("no such instruction: {code:#x}"),
        }
    }
}

fn native() -> Calls {
    NATIVE.expect("a known processor")
}

fn of(reach: Reach) -> impl Fn(u32, [u32; 4]) -> u32 {
    let program = build(reach, false).expect("a filter");
    move |number, arguments| run(&program, native().architecture, number, arguments)
}

#[test]
fn without_need_there_is_no_filter() {
    assert_eq!(build(Reach::All, false), Some(Vec::new()));
}

#[test]
fn without_a_network_there_are_unix_and_netlink_sockets_alone() {
    let call = of(Reach::None);
    for (family, expected) in
        [(1, 0), (16, 0), (2, EACCES), (10, EACCES), (17, EACCES), (40, EACCES), (43, EACCES)]
    {
        assert_eq!(call(native().socket, [family, 1, 0, 0]), expected, "family {family}");
    }
    assert_eq!(call(native().io_uring_setup, [0; 4]), ENOSYS);
    assert_eq!(call(0, [0; 4]), 0);
}

#[test]
fn with_ports_only_kinds_that_landlock_watches_reach_them() {
    let call = of(Reach::Tcp);
    let stream_of_node = 1 | 0o2000000 | 0o4000;
    for family in [2, 10] {
        for (kind, protocol, expected) in [
            (1, 0, 0),
            (stream_of_node, 6, 0),
            (2, 0, 0),
            (2, 17, 0),
            // MPTCP, SCTP by its number and by its kind, DCCP, raw
            (1, 262, EPROTONOSUPPORT),
            (1, 132, EPROTONOSUPPORT),
            (5, 0, EPROTONOSUPPORT),
            (6, 0, EPROTONOSUPPORT),
            (3, 6, EPROTONOSUPPORT),
        ] {
            assert_eq!(
                call(native().socket, [family, kind, protocol, 0]),
                expected,
                "{family} {kind} {protocol}"
            );
        }
    }
    // SMC and vsock
    assert_eq!(call(native().socket, [43, 1, 0, 0]), EAFNOSUPPORT);
    assert_eq!(call(native().socket, [40, 1, 0, 0]), EAFNOSUPPORT);
}

#[test]
fn no_send_connects() {
    let call = of(Reach::Tcp);
    for (number, at) in [(native().send_to, 3), (native().send_message, 2), (native().send_messages, 3)] {
        let mut arguments = [0x4000; 4];
        assert_eq!(call(number, arguments), 0);
        arguments[at] |= MSG_FASTOPEN;
        assert_eq!(call(number, arguments), EOPNOTSUPP);
    }
}

#[test]
fn other_architectures_are_no_way_around() {
    let filter = build(Reach::Tcp, true).expect("a filter");
    let i386 = 0x4000_0003;
    for number in [102, 359, 425, 92, 193] {
        assert_eq!(run(&filter, i386, number, [0; 4]), EACCES, "{number}");
    }
    assert_eq!(run(&filter, i386, 4, [0; 4]), 0);
    if let Some(x32) = native().end {
        assert_eq!(run(&filter, native().architecture, x32 | native().socket, [2, 1, 262, 0]), ENOSYS);
    }
}

#[test]
fn where_landlock_does_not_see_truncate_nobody_truncates() {
    let filter = build(Reach::All, true).expect("a filter");
    assert_eq!(run(&filter, native().architecture, native().truncate[0], [0; 4]), EACCES);
    assert_eq!(run(&filter, native().architecture, native().socket, [2, 1, 0, 0]), 0);
}

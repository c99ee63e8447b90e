//! The filter, run as the kernel runs it.

use super::*;

/// In place of an errno: the host is asked.
const ASKED: u32 = u32::MAX;

/// The filter's errno for a call: 0 if the call is allowed.
fn run(program: &[Instruction], architecture: u32, number: u32, arguments: [u32; 4]) -> u32 {
    run_wide(program, architecture, number, arguments.map(u64::from))
}

fn run_wide(program: &[Instruction], architecture: u32, number: u32, arguments: [u64; 4]) -> u32 {
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
                    half => {
                        let value = arguments[(half as usize - 16) / 8];
                        if half % 8 == 0 { value as u32 } else { (value >> 32) as u32 }
                    }
                }
            }
            AND => accumulator &= operand,
            JUMP => at += operand as usize,
            JUMP_EQUAL => jump(accumulator == operand),
            JUMP_AT_LEAST => jump(accumulator >= operand),
            JUMP_ANY_BIT => jump(accumulator & operand != 0),
            RETURN => {
                return match operand {
                    ALLOW => 0,
                    ASK => ASKED,
                    refused => refused & 0xffff,
                };
            }
            _ => panic!("no such instruction: {code:#x}"),
        }
    }
}

fn native() -> Calls {
    NATIVE.expect("a known processor")
}

fn of(reach: Reach) -> impl Fn(u32, [u32; 4]) -> u32 {
    let program = build(reach, false, true).expect("a filter");
    move |number, arguments| run(&program, native().architecture, number, arguments)
}

/// A column of the list.
type Number = fn(&Call) -> u32;

/// The code of another architecture of the same kernel.
const FOREIGN: u32 = 0x4000_0003;

#[test]
fn nobody_acts_on_another_process_whatever_the_network_and_the_architecture() {
    for reach in [Reach::All, Reach::Tcp, Reach::Asked, Reach::None] {
        let program = build(reach, false, true).expect("a filter");
        assert!(program.len() <= 4096, "the kernel takes no longer one: {}", program.len());
        let native = native();
        let numbers: [(u32, Number); 2] = [(native.architecture, native.own), (FOREIGN, native.foreign)];
        for (architecture, number) in numbers {
            for known in CALLS.iter().filter(|known| number(known) != 0) {
                let name = known.name;
                let call = |arguments: [u64; 4]| run_wide(&program, architecture, number(known), arguments);
                match known.rule {
                    Rule::Refused => assert_eq!(call([0; 4]), EPERM, "{name}"),
                    Rule::OwnPid => {
                        assert_eq!((call([0, 9, 9, 9]), call([1, 0, 0, 0])), (0, EPERM), "{name}");
                        // The kernel looks at the low half alone.
                        assert_eq!(call([1 << 32, 9, 9, 9]), 0, "{name}");
                    }
                    Rule::OwnOf(kind) => {
                        let kind = u64::from(kind);
                        assert_eq!((call([kind, 0, 5, 0]), call([kind, 7, 5, 0])), (0, EPERM), "{name}");
                        // The other kinds: a process group, a user.
                        assert_eq!((call([kind + 1, 0, 5, 0]), call([kind + 2, 0, 5, 0])), (EPERM, EPERM));
                    }
                    Rule::Limits => {
                        assert_eq!((call([0, 1, 9, 9]), call([7, 1, 0, 9])), (0, 0), "{name}");
                        assert_eq!((call([7, 1, 9, 9]), call([7, 1, 1 << 32, 0])), (EPERM, EPERM), "{name}");
                    }
                    Rule::Absent => assert_eq!(call([0; 4]), ENOSYS, "{name}"),
                    Rule::Requests => {
                        for refused in TYPING.iter().chain(&FILE_REQUESTS).chain(&[
                            0x5000_940e,
                            0x5000_9401,
                            0x4058_bc10,
                        ]) {
                            let request = u64::from(*refused);
                            assert_eq!(call([0, request, 0, 0]), EPERM, "{refused:#x}");
                            // The kernel looks at the low half alone.
                            assert_eq!(call([0, 1 << 32 | request, 0, 0]), EPERM, "{refused:#x}");
                        }
                        // TCGETS, FIONREAD, the flags of a file.
                        for allowed in COPYING.iter().chain(&[0x5401, 0x541b, 0x8008_6601, 0x4008_6602]) {
                            assert_eq!(call([0, u64::from(*allowed), 0, 0]), 0, "{allowed:#x}");
                        }
                    }
                }
            }
        }
        // read, and what is no call at all.
        assert_eq!(
            (run(&program, native.architecture, 63, [0; 4]), run(&program, FOREIGN, 3, [0; 4])),
            (0, 0)
        );
    }
}

#[test]
fn no_two_calls_have_one_number_and_the_kernels_own_are_these() {
    use nix::libc;
    let columns: [Number; 4] = [|call| call.x86_64, |call| call.aarch64, |call| call.i386, |call| call.arm];
    for number in columns {
        let mut numbers: Vec<u32> = CALLS.iter().map(number).filter(|number| *number != 0).collect();
        let all = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), all);
    }
    let known = [
        ("ioctl", libc::SYS_ioctl),
        ("prlimit64", libc::SYS_prlimit64),
        ("sched_setaffinity", libc::SYS_sched_setaffinity),
        ("sched_setscheduler", libc::SYS_sched_setscheduler),
        ("sched_setparam", libc::SYS_sched_setparam),
        ("sched_setattr", libc::SYS_sched_setattr),
        ("setpriority", libc::SYS_setpriority),
        ("ioprio_set", libc::SYS_ioprio_set),
        ("move_pages", libc::SYS_move_pages),
        ("migrate_pages", libc::SYS_migrate_pages),
        ("process_vm_readv", libc::SYS_process_vm_readv),
        ("process_vm_writev", libc::SYS_process_vm_writev),
        ("process_madvise", libc::SYS_process_madvise),
        ("process_mrelease", libc::SYS_process_mrelease),
        ("kcmp", libc::SYS_kcmp),
        ("pidfd_getfd", libc::SYS_pidfd_getfd),
        ("perf_event_open", libc::SYS_perf_event_open),
        ("bpf", libc::SYS_bpf),
        ("mount_setattr", libc::SYS_mount_setattr),
        ("open_tree_attr", 467),
        ("clone3", libc::SYS_clone3),
        ("add_key", libc::SYS_add_key),
        ("request_key", libc::SYS_request_key),
        ("keyctl", libc::SYS_keyctl),
        ("shmget", libc::SYS_shmget),
        ("shmat", libc::SYS_shmat),
        ("shmctl", libc::SYS_shmctl),
        ("semget", libc::SYS_semget),
        ("semop", libc::SYS_semop),
        ("semctl", libc::SYS_semctl),
        ("semtimedop", libc::SYS_semtimedop),
        ("msgget", libc::SYS_msgget),
        ("msgsnd", libc::SYS_msgsnd),
        ("msgrcv", libc::SYS_msgrcv),
        ("msgctl", libc::SYS_msgctl),
        ("mq_open", libc::SYS_mq_open),
        ("mq_unlink", libc::SYS_mq_unlink),
        ("mq_timedsend", libc::SYS_mq_timedsend),
        ("mq_timedreceive", libc::SYS_mq_timedreceive),
        ("mq_notify", libc::SYS_mq_notify),
        ("mq_getsetattr", libc::SYS_mq_getsetattr),
    ];
    let own = native().own;
    let here: Vec<(&str, i64)> =
        CALLS.iter().filter(|call| own(call) != 0).map(|call| (call.name, i64::from(own(call)))).collect();
    assert_eq!(here, known);
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
fn with_ports_and_hosts_there_are_tcp_sockets_alone() {
    for call in [of(Reach::Tcp), of(Reach::Asked)] {
        only_tcp(call);
    }
}

fn only_tcp(call: impl Fn(u32, [u32; 4]) -> u32) {
    let stream_of_node = 1 | 0o2000000 | 0o4000;
    for family in [2, 10] {
        for (kind, protocol, expected) in [
            (1, 0, 0),
            (stream_of_node, 6, 0),
            // UDP, ICMP
            (2, 0, EPROTONOSUPPORT),
            (2, 17, EPROTONOSUPPORT),
            (2, 1, EPROTONOSUPPORT),
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
fn no_datagram_goes_to_a_socket_that_has_a_path() {
    for reach in [Reach::None, Reach::Tcp, Reach::Asked] {
        let call = of(reach);
        for number in [native().socket, native().socket_pair] {
            for (kind, expected) in
                [(1, 0), (5, 0), (1 | 0o2000000, 0), (2, EACCES), (3, EACCES), (0, EACCES)]
            {
                assert_eq!(call(number, [1, kind, 0, 0]), expected, "{reach:?} {number} {kind}");
            }
        }
        // TIPC
        assert_eq!(call(native().socket_pair, [30, 1, 0, 0]), EACCES);
    }
    assert_eq!(of(Reach::All)(native().socket, [1, 2, 0, 0]), 0);
}

#[test]
fn the_host_is_asked_what_the_filter_does_not_see() {
    let calls = [native().connect, native().bind, native().listen];
    for (reach, expected) in [
        (Reach::All, [0, 0, 0]),
        (Reach::None, [ASKED, 0, 0]),
        (Reach::Tcp, [ASKED, 0, 0]),
        (Reach::Asked, [ASKED; 3]),
    ] {
        assert_eq!(calls.map(|number| of(reach)(number, [0; 4])), expected, "{reach:?}");
    }
    // If it can't be asked, there are no Unix sockets but pairs, which need no address.
    let filter = build(Reach::None, false, false).expect("a filter");
    let call = |number, arguments| run(&filter, native().architecture, number, arguments);
    assert_eq!(call(native().socket, [1, 1, 0, 0]), EACCES);
    assert_eq!((call(native().socket_pair, [1, 1, 0, 0]), call(native().connect, [0; 4])), (0, 0));
    // Other families of netlink hand out more than addresses.
    assert_eq!(of(Reach::Asked)(native().socket, [16, 3, 0, 0]), 0);
    assert_eq!(of(Reach::Asked)(native().socket, [16, 3, 4, 0]), EPROTONOSUPPORT);
}

#[test]
fn no_filter_of_the_program_answers_for_the_host() {
    for reach in [Reach::None, Reach::Tcp, Reach::Asked] {
        let filter = build(reach, false, true).expect("a filter");
        for (architecture, number) in
            [(native().architecture, native().seccomp), (FOREIGN, native().foreign_seccomp)]
        {
            let call = |flags| run(&filter, architecture, number, [1, flags, 0, 0]);
            assert_eq!([0, 1, 8, 9, 40].map(call), [0, 0, EBUSY, EBUSY, EBUSY], "{reach:?}");
        }
    }
}

#[test]
fn no_send_connects() {
    for call in [of(Reach::Tcp), of(Reach::Asked)] {
        sends_do_not_connect(call);
    }
}

fn sends_do_not_connect(call: impl Fn(u32, [u32; 4]) -> u32) {
    for (number, at) in [(native().send_to, 3), (native().send_message, 2), (native().send_messages, 3)] {
        let mut arguments = [0x4000; 4];
        assert_eq!(call(number, arguments), 0);
        arguments[at] |= MSG_FASTOPEN;
        assert_eq!(call(number, arguments), EOPNOTSUPP);
    }
}

#[test]
fn no_option_sends_packets_elsewhere_than_the_address_says() {
    let call = of(Reach::Asked);
    let set = |level, name| call(native().set_option, [3, level, name, 0]);
    // Source routes of both versions of IP, and devices.
    for (level, name) in [(0, 4), (41, 57), (41, 5), (41, 6), (1, 25), (1, 62)] {
        assert_eq!(set(level, name), EPERM, "{level} {name}");
    }
    // SO_REUSEADDR, TCP_NODELAY and TCP_KEEPIDLE, IP_TOS, IPV6_V6ONLY
    for (level, name) in [(1, 2), (6, 1), (6, 4), (0, 1), (41, 26)] {
        assert_eq!(set(level, name), 0, "{level} {name}");
    }
    // With ports, each host is allowed, so a way to another host adds nothing.
    assert_eq!(of(Reach::Tcp)(native().set_option, [3, 0, 4, 0]), 0);
}

#[test]
fn other_architectures_are_no_way_around() {
    assert!(
        native().foreign_network.contains(&if cfg!(target_arch = "x86_64") { 366 } else { 294 }),
        "setsockopt"
    );
    let filter = build(Reach::Tcp, true, true).expect("a filter");
    for number in native().foreign_network.iter().chain(&FOREIGN_TRUNCATE) {
        assert_eq!(run(&filter, FOREIGN, *number, [0; 4]), EACCES, "{number}");
    }
    // write; and what is `pipe2` on ARM is `socket` on i386.
    assert_eq!(run(&filter, FOREIGN, 4, [0; 4]), 0);
    let of_359 = if cfg!(target_arch = "x86_64") { EACCES } else { 0 };
    assert_eq!(run(&filter, FOREIGN, 359, [0; 4]), of_359);
    if let Some(x32) = native().end {
        assert_eq!(run(&filter, native().architecture, x32 | native().socket, [2, 1, 262, 0]), ENOSYS);
    }
}

#[test]
fn where_landlock_does_not_see_truncate_nobody_truncates() {
    let filter = build(Reach::All, true, true).expect("a filter");
    assert_eq!(run(&filter, native().architecture, native().truncate[0], [0; 4]), EACCES);
    assert_eq!(run(&filter, native().architecture, native().socket, [2, 1, 0, 0]), 0);
}

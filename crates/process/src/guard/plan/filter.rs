//! The seccomp filter of a sandbox: it closes ways around Landlock's rules that show in the numbers of a system call. PURE.
//!
//! Landlock checks connect(2) and bind(2) of plain TCP sockets. It does not see MPTCP, SCTP and SMC (other socket kinds over
//! the same wire), Fast Open (a connect inside of a send), or io_uring, which does these without a system call. Of the calls
//! that act on other processes it checks few; [`calls`](super::calls) lists them.
//!
//! A filter can't read an address, which is in memory. If Unix sockets or hosts are limited, it asks the host
//! ([`fence`](crate::fence)) about connect(2). The filter is a classic BPF program over `struct seccomp_data`: number, architecture,
//! instruction pointer, six arguments.

use super::calls::{CALLS, COPYING, Call, FILE_REQUESTS, FILE_SYSTEM, FILE_SYSTEMS, Rule, TYPING};

/// One instruction of classic BPF, `struct sock_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    code: u16,
    /// Instructions to pass over when it holds, and when not.
    then: u8,
    otherwise: u8,
    operand: u32,
}

impl Instruction {
    pub(crate) fn bytes(self) -> [u8; 8] {
        let ([a, b], [e, f, g, h]) = (self.code.to_le_bytes(), self.operand.to_le_bytes());
        [a, b, self.then, self.otherwise, e, f, g, h]
    }
}

/// The sockets that a program may create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    All,
    /// TCP, which Landlock watches.
    Tcp,
    /// TCP, by way of the host alone.
    Asked,
    /// Unix and netlink alone.
    None,
}

const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_AT_LEAST: u16 = 0x35;
const JUMP_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;

const ALLOW: u32 = 0x7fff_0000;
const ASK: u32 = 0x7fc0_0000;
const ERRNO: u32 = 0x0005_0000;
const EPERM: u32 = 1;
const EBUSY: u32 = 16;
const EACCES: u32 = 13;
const ENOSYS: u32 = 38;
const EPROTONOSUPPORT: u32 = 93;
const EOPNOTSUPP: u32 = 95;
const EAFNOSUPPORT: u32 = 97;

const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
/// The low half of an argument: `int` and `unsigned` are no longer.
const fn argument(index: u32) -> u32 {
    16 + 8 * index
}
/// The high half.
const fn high_of(index: u32) -> u32 {
    argument(index) + 4
}

const UNIX: u32 = 1;
const INET: u32 = 2;
const INET6: u32 = 10;
const NETLINK: u32 = 16;
/// SOCK_STREAM; what else is of UDP, ICMP, SCTP, DCCP and raw packets.
const KINDS: [u32; 1] = [1];
/// SOCK_STREAM and SOCK_SEQPACKET. A datagram goes to any address, which a filter does not see.
const UNIX_KINDS: [u32; 2] = [1, 5];
/// NETLINK_ROUTE, by which a C library lists addresses.
const NETLINK_ROUTE: u32 = 0;
const KIND_MASK: u32 = 0xf;
/// Unsaid, TCP.
const PROTOCOLS: [u32; 2] = [0, 6];
/// SECCOMP_FILTER_FLAG_NEW_LISTENER. Of two filters that ask, the younger one's listener decides.
const NEW_LISTENER: u32 = 1 << 3;
const MSG_FASTOPEN: u32 = 0x2000_0000;

/// Options by which the packets of a socket go elsewhere than its address says, by their levels: devices (`SO_BINDTODEVICE`,
/// `SO_BINDTOIFINDEX`), and source routes (`IP_OPTIONS`, `IPV6_RTHDR` with its older forms `IPV6_2292RTHDR`, `IPV6_2292PKTOPTIONS`). With them,
/// a connection to loopback sends what it likes to any machine.
const ROUTES: [(u32, &[u32]); 3] = [(1, &[25, 62]), (0, &[4]), (41, &[57, 5, 6])];

/// The system calls of one architecture that matter here, and of the 32-bit one that the same kernel runs.
struct Calls {
    architecture: u32,
    socket: u32,
    socket_pair: u32,
    connect: u32,
    bind: u32,
    listen: u32,
    seccomp: u32,
    send_to: u32,
    send_message: u32,
    send_messages: u32,
    set_option: u32,
    truncate: &'static [u32],
    io_uring_setup: u32,
    /// Numbers from here on are another architecture's in disguise.
    end: Option<u32>,
    /// The number of a call here, and in 32-bit programs.
    own: fn(&Call) -> u32,
    foreign: fn(&Call) -> u32,
    /// In 32-bit programs sockets can't be told apart everywhere (`socketcall` hides its arguments), so there are none: `socketcall`
    /// or each call that makes, binds or connects one, and `io_uring_setup`.
    foreign_network: &'static [u32],
    foreign_seccomp: u32,
}

#[cfg(target_arch = "x86_64")]
const NATIVE: Option<Calls> = Some(Calls {
    architecture: 0xc000_003e,
    socket: 41,
    socket_pair: 53,
    connect: 42,
    bind: 49,
    listen: 50,
    seccomp: 317,
    send_to: 44,
    send_message: 46,
    send_messages: 307,
    set_option: 54,
    truncate: &[76],
    io_uring_setup: 425,
    // x32
    end: Some(0x4000_0000),
    own: |call| call.x86_64,
    foreign: |call| call.i386,
    foreign_network: &[102, 345, 359, 360, 361, 362, 363, 366, 369, 370, 425],
    foreign_seccomp: 354,
});
#[cfg(target_arch = "aarch64")]
const NATIVE: Option<Calls> = Some(Calls {
    architecture: 0xc000_00b7,
    socket: 198,
    socket_pair: 199,
    connect: 203,
    bind: 200,
    listen: 201,
    seccomp: 277,
    send_to: 206,
    send_message: 211,
    send_messages: 269,
    set_option: 208,
    truncate: &[45],
    io_uring_setup: 425,
    end: None,
    own: |call| call.aarch64,
    foreign: |call| call.arm,
    foreign_network: &[281, 282, 283, 284, 288, 290, 294, 296, 374, 425],
    foreign_seccomp: 383,
});
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const NATIVE: Option<Calls> = None;

/// `truncate` and `truncate64`, of i386 and of ARM.
const FOREIGN_TRUNCATE: [u32; 2] = [92, 193];

/// `None` where the processor's calls are not known. `no_truncate`: Landlock of this kernel does not see truncate(2). `asks`: the host
/// can be asked about a call. Otherwise there are no Unix sockets where they are limited.
pub(crate) fn build(reach: Reach, no_truncate: bool, asks: bool) -> Option<Vec<Instruction>> {
    let calls = NATIVE?;
    let mut program = Program::default();
    program.load(ARCHITECTURE);
    let foreign = foreign(&calls, reach, no_truncate);
    program.unless(calls.architecture, &foreign);
    program.load(NUMBER);
    if let Some(end) = calls.end {
        program.push(JUMP_AT_LEAST, 0, 1, end);
        program.refuse(ENOSYS);
    }
    program.rules(calls.own);
    if no_truncate {
        program.refuse_numbers(calls.truncate, EACCES);
    }
    if reach != Reach::All {
        program.refuse_numbers(&[calls.io_uring_setup], ENOSYS);
        program.when(calls.socket, &sockets(reach, asks));
        let mut pairs = Program::default();
        pairs.load(argument(0));
        pairs.pass_any(&[UNIX], EACCES);
        pairs.kinds(&UNIX_KINDS, EACCES);
        pairs.allow();
        program.when(calls.socket_pair, &pairs);
        program.when(calls.seccomp, &filters());
    }
    if reach != Reach::All && asks {
        program.ask(calls.connect);
    }
    if reach == Reach::Asked {
        program.ask(calls.bind);
        program.ask(calls.listen);
        program.when(calls.set_option, &options());
    }
    if matches!(reach, Reach::Tcp | Reach::Asked) {
        let sends = [(calls.send_to, 3), (calls.send_message, 2), (calls.send_messages, 3)];
        for (number, flags) in sends {
            let mut block = Program::default();
            block.load(argument(flags));
            block.push(JUMP_ANY_BIT, 0, 1, MSG_FASTOPEN);
            // A kernel with Fast Open switched off gives this errno; programs then connect normally.
            block.refuse(EOPNOTSUPP);
            block.allow();
            program.when(number, &block);
        }
    }
    program.allow();
    Some(program.instructions)
}

/// A program's own filters may ask nobody: with a listener of its own it would answer for the host, once the host is gone.
fn filters() -> Program {
    let mut block = Program::default();
    block.load(argument(1));
    block.push(JUMP_ANY_BIT, 0, 1, NEW_LISTENER);
    block.refuse(EBUSY);
    block.allow();
    block
}

fn options() -> Program {
    let mut block = Program::default();
    block.load(argument(1));
    for (level, names) in ROUTES {
        let mut routes = Program::default();
        routes.load(argument(2));
        routes.refuse_numbers(names, EPERM);
        routes.allow();
        block.when(level, &routes);
    }
    block.allow();
    block
}

fn sockets(reach: Reach, asks: bool) -> Program {
    let mut block = Program::default();
    block.load(argument(0));
    let mut unix = Program::default();
    if asks {
        unix.kinds(&UNIX_KINDS, EACCES);
        unix.allow();
    } else {
        unix.refuse(EACCES);
    }
    block.when(UNIX, &unix);
    let mut netlink = Program::default();
    netlink.load(argument(2));
    netlink.pass_any(&[NETLINK_ROUTE], EPROTONOSUPPORT);
    netlink.allow();
    block.when(NETLINK, &netlink);
    if reach == Reach::None {
        block.refuse(EACCES);
        return block;
    }
    let mut inet = Program::default();
    inet.kinds(&KINDS, EPROTONOSUPPORT);
    inet.load(argument(2));
    inet.pass_any(&PROTOCOLS, EPROTONOSUPPORT);
    inet.allow();
    block.when(INET, &inet);
    block.when(INET6, &inet);
    block.refuse(EAFNOSUPPORT);
    block
}

fn foreign(calls: &Calls, reach: Reach, no_truncate: bool) -> Program {
    let mut block = Program::default();
    block.load(NUMBER);
    block.rules(calls.foreign);
    if reach != Reach::All {
        block.refuse_numbers(calls.foreign_network, EACCES);
        block.when(calls.foreign_seccomp, &filters());
    }
    if no_truncate {
        block.refuse_numbers(&FOREIGN_TRUNCATE, EACCES);
    }
    block.allow();
    block
}

#[derive(Default)]
struct Program {
    instructions: Vec<Instruction>,
}

impl Program {
    fn push(&mut self, code: u16, then: u8, otherwise: u8, operand: u32) {
        self.instructions.push(Instruction { code, then, otherwise, operand });
    }

    fn load(&mut self, at: u32) {
        self.push(LOAD, 0, 0, at);
    }

    fn allow(&mut self) {
        self.push(RETURN, 0, 0, ALLOW);
    }

    fn refuse(&mut self, errno: u32) {
        self.push(RETURN, 0, 0, ERRNO | errno);
    }

    /// Adds the rules for calls by which a process acts on another one. `number` gives a call's number on this architecture.
    fn rules(&mut self, number: fn(&Call) -> u32) {
        for call in CALLS.iter().filter(|call| number(call) != 0) {
            let mut block = Program::default();
            match call.rule {
                Rule::Refused => {}
                Rule::OwnPid => {
                    block.load(argument(0));
                    block.allow_any(&[0]);
                }
                Rule::OwnOf(kind) => {
                    block.load(argument(0));
                    block.pass_any(&[kind], EPERM);
                    block.load(argument(1));
                    block.allow_any(&[0]);
                }
                Rule::Limits => {
                    block.load(argument(0));
                    block.allow_any(&[0]);
                    // No new limits: both halves of the pointer to them are 0.
                    block.load(argument(2));
                    block.pass_any(&[0], EPERM);
                    block.load(high_of(2));
                    block.allow_any(&[0]);
                }
                Rule::Absent => block.refuse(ENOSYS),
                Rule::Requests => {
                    block.load(argument(1));
                    block.refuse_numbers(&TYPING, EPERM);
                    block.refuse_numbers(&FILE_REQUESTS, EPERM);
                    block.allow_any(&COPYING);
                    block.push(AND, 0, 0, FILE_SYSTEM);
                    block.refuse_numbers(&FILE_SYSTEMS, EPERM);
                    block.allow();
                }
            }
            if !matches!(call.rule, Rule::Absent | Rule::Requests) {
                block.refuse(EPERM);
            }
            self.when(number(call), &block);
        }
    }

    /// The block, which never comes out of itself, when the value is this one.
    fn when(&mut self, value: u32, block: &Program) {
        self.push(JUMP_EQUAL, 1, 0, value);
        self.push(JUMP, 0, 0, block.instructions.len() as u32);
        self.instructions.extend_from_slice(&block.instructions);
    }

    fn unless(&mut self, value: u32, block: &Program) {
        // Over the jump and into the block when it is another one: a jump by a condition reaches 255 instructions at most.
        self.push(JUMP_EQUAL, 0, 1, value);
        self.push(JUMP, 0, 0, block.instructions.len() as u32);
        self.instructions.extend_from_slice(&block.instructions);
    }

    fn refuse_numbers(&mut self, numbers: &[u32], errno: u32) {
        for number in numbers {
            self.push(JUMP_EQUAL, 0, 1, *number);
            self.refuse(errno);
        }
    }

    fn allow_any(&mut self, values: &[u32]) {
        for value in values {
            self.push(JUMP_EQUAL, 0, 1, *value);
            self.allow();
        }
    }

    /// Goes on when a socket is of one of these kinds.
    fn kinds(&mut self, kinds: &[u32], errno: u32) {
        self.load(argument(1));
        self.push(AND, 0, 0, KIND_MASK);
        self.pass_any(kinds, errno);
    }

    /// Asks the host about a call.
    fn ask(&mut self, number: u32) {
        self.push(JUMP_EQUAL, 0, 1, number);
        self.push(RETURN, 0, 0, ASK);
    }

    /// Goes on when the value is one of these.
    fn pass_any(&mut self, values: &[u32], errno: u32) {
        for (index, value) in values.iter().enumerate() {
            self.push(JUMP_EQUAL, (values.len() - index) as u8, 0, *value);
        }
        self.refuse(errno);
    }
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;

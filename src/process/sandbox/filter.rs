//! The seccomp filter of a sandbox: the ways around Landlock's rules that a system call's numbers give away. PURE.
//!
//! Landlock sees connect(2) and bind(2) of plain TCP sockets. Past it go MPTCP, SCTP and SMC (other socket kinds over the
//! same wire), Fast Open (a connect inside of a send), and whatever io_uring does of those without a system call. The filter
//! is a classic BPF program over `struct seccomp_data`: number, architecture, instruction pointer, six arguments.

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

/// Which sockets there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    All,
    /// TCP (which Landlock watches), UDP and ICMP.
    Tcp,
    /// Unix and netlink alone.
    None,
}

const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_AT_LEAST: u16 = 0x35;
const JUMP_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;

const ALLOW: u32 = 0x7fff_0000;
const ERRNO: u32 = 0x0005_0000;
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

const UNIX: u32 = 1;
const INET: u32 = 2;
const INET6: u32 = 10;
const NETLINK: u32 = 16;
/// SOCK_STREAM and SOCK_DGRAM; what else is of SCTP, DCCP and raw packets.
const KINDS: [u32; 2] = [1, 2];
const KIND_MASK: u32 = 0xf;
/// Unsaid, ICMP, TCP, UDP, ICMPv6.
const PROTOCOLS: [u32; 5] = [0, 1, 6, 17, 58];
const MSG_FASTOPEN: u32 = 0x2000_0000;

/// The system calls of one architecture that matter here.
struct Calls {
    architecture: u32,
    socket: u32,
    send_to: u32,
    send_message: u32,
    send_messages: u32,
    truncate: &'static [u32],
    io_uring_setup: u32,
    /// Numbers from here on are another architecture's in disguise.
    end: Option<u32>,
}

#[cfg(target_arch = "x86_64")]
const NATIVE: Option<Calls> = Some(Calls {
    architecture: 0xc000_003e,
    socket: 41,
    send_to: 44,
    send_message: 46,
    send_messages: 307,
    truncate: &[76],
    io_uring_setup: 425,
    // x32
    end: Some(0x4000_0000),
});
#[cfg(target_arch = "aarch64")]
const NATIVE: Option<Calls> = Some(Calls {
    architecture: 0xc000_00b7,
    socket: 198,
    send_to: 206,
    send_message: 211,
    send_messages: 269,
    truncate: &[45],
    io_uring_setup: 425,
    end: None,
});
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const NATIVE: Option<Calls> = None;

/// For 32-bit programs: their sockets can't be told apart (`socketcall` hides its arguments), so there are none; the lists
/// are of i386 and of ARM: socketcall, socket, io_uring_setup.
const FOREIGN_NETWORK: [u32; 4] = [102, 359, 281, 425];
const FOREIGN_TRUNCATE: [u32; 2] = [92, 193];

/// An empty filter where nothing has to be refused; `None` where the processor's calls are not known.
/// `no_truncate`: Landlock of this kernel does not see truncate(2).
pub(crate) fn build(reach: Reach, no_truncate: bool) -> Option<Vec<Instruction>> {
    if reach == Reach::All && !no_truncate {
        return Some(Vec::new());
    }
    let calls = NATIVE?;
    let mut program = Program::default();
    program.load(ARCHITECTURE);
    let foreign = foreign(reach, no_truncate);
    program.unless(calls.architecture, &foreign);
    program.load(NUMBER);
    if let Some(end) = calls.end {
        program.push(JUMP_AT_LEAST, 0, 1, end);
        program.refuse(ENOSYS);
    }
    if no_truncate {
        program.refuse_numbers(calls.truncate, EACCES);
    }
    if reach != Reach::All {
        program.refuse_numbers(&[calls.io_uring_setup], ENOSYS);
        program.when(calls.socket, &sockets(reach));
    }
    if reach == Reach::Tcp {
        let sends = [(calls.send_to, 3), (calls.send_message, 2), (calls.send_messages, 3)];
        for (number, flags) in sends {
            let mut block = Program::default();
            block.load(argument(flags));
            block.push(JUMP_ANY_BIT, 0, 1, MSG_FASTOPEN);
            // As a kernel says whose Fast Open is switched off: programs then connect.
            block.refuse(EOPNOTSUPP);
            block.allow();
            program.when(number, &block);
        }
    }
    program.allow();
    Some(program.instructions)
}

fn sockets(reach: Reach) -> Program {
    let mut block = Program::default();
    block.load(argument(0));
    block.allow_any(&[UNIX, NETLINK]);
    if reach == Reach::None {
        block.refuse(EACCES);
        return block;
    }
    let mut inet = Program::default();
    inet.load(argument(1));
    inet.push(AND, 0, 0, KIND_MASK);
    inet.pass_any(&KINDS, EPROTONOSUPPORT);
    inet.load(argument(2));
    inet.pass_any(&PROTOCOLS, EPROTONOSUPPORT);
    inet.allow();
    block.when(INET, &inet);
    block.when(INET6, &inet);
    block.refuse(EAFNOSUPPORT);
    block
}

fn foreign(reach: Reach, no_truncate: bool) -> Program {
    let mut block = Program::default();
    block.load(NUMBER);
    if reach != Reach::All {
        block.refuse_numbers(&FOREIGN_NETWORK, EACCES);
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

    /// The block, which never comes out of itself, when the value is this one.
    fn when(&mut self, value: u32, block: &Program) {
        self.push(JUMP_EQUAL, 0, block.length(), value);
        self.instructions.extend_from_slice(&block.instructions);
    }

    fn unless(&mut self, value: u32, block: &Program) {
        self.push(JUMP_EQUAL, block.length(), 0, value);
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

    /// Goes on when the value is one of these.
    fn pass_any(&mut self, values: &[u32], errno: u32) {
        for (index, value) in values.iter().enumerate() {
            self.push(JUMP_EQUAL, (values.len() - index) as u8, 0, *value);
        }
        self.refuse(errno);
    }

    /// Blocks are a few dozen instructions: a jump reaches over each.
    fn length(&self) -> u8 {
        self.instructions.len() as u8
    }
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;

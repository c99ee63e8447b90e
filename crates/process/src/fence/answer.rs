//! The answer to one call. It blocks: a connection may take long, and so may a path.
//!
//! Nothing is decided by memory that the program can change after it was read. Each call is made here, with this process's own copy of
//! the address, on the program's own open socket. The program's process itself may connect to nothing (Landlock).

use super::address::{Address, MAX_BYTES, encode, encode_path};
use super::listeners::{Listeners, Owner};
use super::notice::{Answer, Listener, Notice};
use super::rules::{Rules, Target, Verdict, to_bind};
use crate::refusals::{Kind, Refusals};
use crate::traffic::Callers;
use ground::os::is_loopback;
use ground::os::unix::folder_of_process;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, open, openat2, readlink};
use nix::libc::{self, c_int};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

/// A server for every user needs a privilege below this port, which no program in a sandbox has.
const FIRST_FREE_PORT: u16 = 1024;
/// Ports that are tried for a socket that may have any.
const MOST_CHOICES: usize = 32;

pub(super) struct Fence {
    pub listener: Listener,
    pub rules: Rules,
    pub listeners: Listeners,
    pub refusals: Refusals,
    pub callers: Callers,
}

impl Fence {
    /// Makes the call for the program, or refuses it.
    pub(super) fn answer(&self, notice: &Notice) {
        let answer = match notice.call() {
            libc::SYS_connect => self.on_connect(notice),
            libc::SYS_bind => self.on_bind(notice),
            libc::SYS_listen => self.on_listen(notice),
            _ => Err(Errno::EACCES),
        };
        self.listener.answer(notice, answer.unwrap_or_else(Answer::Failed));
    }

    fn on_connect(&self, notice: &Notice) -> Result<Answer, Errno> {
        let address = self.address(notice)?;
        let socket = self.socket(notice)?;
        match self.rules.on_connect(address) {
            Verdict::Connect(to) => self.connect(notice, &socket, to),
            Verdict::ConnectIfOwn(to, or) => match self.listeners.owner(to) {
                Owner::Tree if is_loopback(to.ip()) => self.connect(notice, &socket, to),
                Owner::Other if is_loopback(to.ip()) => Err(self.refuse(notice, Kind::Host, to.to_string())),
                _ if self.listeners.owner(or) == Owner::Tree => self.connect(notice, &socket, or),
                _ if is_loopback(to.ip()) => Err(Errno::ECONNREFUSED),
                _ => Err(self.refuse(
                    notice,
                    Kind::Host,
                    SocketAddr::new(to.ip().to_canonical(), to.port()).to_string(),
                )),
            },
            Verdict::Look(path) => self.connect_to_path(notice, &socket, &path),
            Verdict::Disconnect => Ok(disconnect(&socket).into()),
            Verdict::Refuse(Target::Host(address)) => {
                Err(self.refuse(notice, Kind::Host, address.to_string()))
            }
            Verdict::Refuse(Target::Name(name)) => {
                Err(self.refuse(notice, Kind::Socket, format!("@{}", String::from_utf8_lossy(&name))))
            }
            Verdict::Refuse(Target::Family(_)) => Err(Errno::EACCES),
        }
    }

    fn connect(&self, notice: &Notice, socket: &OwnedFd, to: SocketAddr) -> Result<Answer, Errno> {
        if !is_tcp(socket) {
            return Err(self.refuse(notice, Kind::Host, to.to_string()));
        }
        let made = call_with(libc::connect, socket, &encode(to));
        // The kernel may give a client the port of a listed server that is not there. If the gate dialled this very client at that moment,
        // the two would be connected (simultaneous open).
        let own = local_address(socket);
        if own.is_ok_and(|own| self.rules.is_reserved(own.port())) {
            return Err(disconnect(socket).err().unwrap_or(Errno::EADDRNOTAVAIL));
        }
        // Before the program can send anything.
        if let (true, Ok(own), Ok(()) | Err(Errno::EINPROGRESS)) = (self.rules.is_gate(to.port()), own, made)
        {
            self.callers.add(own);
        }
        Ok(made.into())
    }

    /// Opens the file first, so that what is connected to is what was looked at, whatever becomes of its name.
    fn connect_to_path(&self, notice: &Notice, socket: &OwnedFd, path: &Path) -> Result<Answer, Errno> {
        if domain_of(socket) != Ok(libc::AF_UNIX) {
            return Err(Errno::EAFNOSUPPORT);
        }
        let file = open_as(notice, path)?;
        let status = fstat(file.as_fd())?;
        if SFlag::from_bits_truncate(status.st_mode) & SFlag::S_IFMT != SFlag::S_IFSOCK {
            return Err(Errno::ECONNREFUSED);
        }
        let own = format!("/proc/self/fd/{}", file.as_raw_fd());
        let place = PathBuf::from(readlink(own.as_str())?);
        if !self.rules.allows_socket(&place) || !is_at(&place, &status) {
            return Err(self.refuse(notice, Kind::Socket, place.display().to_string()));
        }
        Ok(call_with(libc::connect, socket, &encode_path(&own)).into())
    }

    /// Landlock keeps the program from binding TCP sockets itself, so what is not TCP is left to the kernel.
    fn on_bind(&self, notice: &Notice) -> Result<Answer, Errno> {
        let Address::Inet(asked) = self.address(notice)? else { return Ok(Answer::Continue) };
        let socket = self.socket(notice)?;
        let to = to_bind(asked).filter(|_| is_tcp(&socket)).ok_or(Errno::EACCES)?;
        if (1..FIRST_FREE_PORT).contains(&to.port()) {
            return Err(Errno::EACCES);
        }
        if self.rules.is_reserved(to.port()) {
            return Err(self.refuse_port(notice, to));
        }
        Ok(self.bind(&socket, for_socket(&socket, to)?).into())
    }

    /// A port that nobody asked for by its number is chosen here. The kernel could choose a listed one. It would also give its choice up
    /// when a connection of this socket fails, and choose again in listen(2).
    fn bind(&self, socket: &OwnedFd, to: SocketAddr) -> Result<(), Errno> {
        if to.port() != 0 {
            return call_with(libc::bind, socket, &encode(to));
        }
        for _ in 0..MOST_CHOICES {
            let port = free_port(to.ip())?;
            if self.rules.is_reserved(port) {
                continue;
            }
            match call_with(libc::bind, socket, &encode(SocketAddr::new(to.ip(), port))) {
                // Another program was faster.
                Err(Errno::EADDRINUSE) => {}
                bound => return bound,
            }
        }
        Err(Errno::EADDRINUSE)
    }

    /// Here a socket is known by itself, whatever its descriptor is by the time that the kernel would look.
    fn on_listen(&self, notice: &Notice) -> Result<Answer, Errno> {
        let socket = self.socket(notice)?;
        let is_inet = match domain_of(&socket)? {
            libc::AF_INET | libc::AF_INET6 => true,
            libc::AF_UNIX => false,
            _ => return Err(Errno::EACCES),
        };
        if is_inet {
            if !is_tcp(&socket) {
                return Err(Errno::EACCES);
            }
            self.keep_on_loopback(notice, &socket)?;
        }
        // SAFETY: a call without pointers.
        Errno::result(unsafe { libc::listen(socket.as_raw_fd(), notice.int(1)) })?;
        if is_inet {
            self.listeners.add(fstat(socket.as_fd())?.st_ino);
        }
        Ok(Answer::Value(0))
    }

    /// Binds a socket that has no address yet to loopback, and refuses one that has another address, or a port of another server.
    fn keep_on_loopback(&self, notice: &Notice, socket: &OwnedFd) -> Result<(), Errno> {
        let bound = local_address(socket)?;
        match bound {
            bound if bound.port() == 0 => {
                let any = SocketAddr::new(Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(), 0);
                self.bind(socket, for_socket(socket, any)?)
            }
            bound if !bound.ip().to_canonical().is_loopback() => Err(Errno::EACCES),
            // It came in with the program's own three descriptors.
            bound if self.rules.is_reserved(bound.port()) => Err(self.refuse_port(notice, bound)),
            _ => Ok(()),
        }
    }

    fn address(&self, notice: &Notice) -> Result<Address, Errno> {
        let length = usize::try_from(notice.int(2)).ok().filter(|length| *length <= MAX_BYTES);
        let bytes = notice.memory(1, length.ok_or(Errno::EINVAL)?);
        let address = Address::parse(&bytes.map_err(|errno| match errno {
            Errno::EFAULT => errno,
            // The program's memory may not be looked at.
            _ => Errno::EACCES,
        })?);
        address.ok_or(Errno::EINVAL)
    }

    /// The socket of the caller, which still waits: its numbers were not another process's.
    fn socket(&self, notice: &Notice) -> Result<OwnedFd, Errno> {
        let socket = notice.socket(0)?;
        if self.listener.is_waiting(notice) { Ok(socket) } else { Err(Errno::EINTR) }
    }

    /// The errno by which a program looks for another port.
    fn refuse_port(&self, notice: &Notice, address: SocketAddr) -> Errno {
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        self.refuse(notice, Kind::Host, format!("{address}: a server of the program's own on a listed port"));
        Errno::EADDRINUSE
    }

    fn refuse(&self, notice: &Notice, kind: Kind, what: String) -> Errno {
        self.refusals.add(kind, what, notice.program());
        Errno::EACCES
    }
}

/// A port that the kernel has just had free.
fn free_port(ip: IpAddr) -> Result<u16, Errno> {
    let listener = TcpListener::bind((ip.to_canonical(), 0)).and_then(|listener| listener.local_addr());
    listener
        .map(|address| address.port())
        .map_err(|error| error.raw_os_error().map_or(Errno::EADDRNOTAVAIL, Errno::from_raw))
}

/// Opens a path of the caller. It leads through a descriptor, a root or a working directory only at its beginning, by the caller's own name
/// for itself. Elsewhere `self` would be this process.
fn open_as(notice: &Notice, path: &Path) -> Result<OwnedFd, Errno> {
    let (process, thread) = (notice.process().ok_or(Errno::EACCES)?, notice.thread().cast_signed());
    let (of, own, rest) = match own_place(path) {
        Some((own, rest)) => (process, own, rest),
        None => match path.strip_prefix("/") {
            Ok(absolute) => (thread, "root".into(), absolute),
            Err(_) => (thread, "cwd".into(), path),
        },
    };
    let base = folder_of_process(of).ok_or(Errno::EACCES)?.join(own);
    let base = open(&base, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    if rest.as_os_str().is_empty() {
        return Ok(base);
    }
    open_below(base.as_fd(), rest, ResolveFlag::RESOLVE_NO_MAGICLINKS)
}

/// The beginning of a path below `/proc/self` that leads elsewhere, and the rest.
fn own_place(path: &Path) -> Option<(PathBuf, &Path)> {
    let mut parts = path.strip_prefix("/proc/self").ok()?.components();
    let first = Path::new(parts.next()?.as_os_str());
    let own = match first.to_str()? {
        "root" | "cwd" => first.to_owned(),
        "fd" => match parts.next()? {
            Component::Normal(descriptor) => first.join(descriptor),
            _ => return None,
        },
        _ => return None,
    };
    Some((own, parts.as_path()))
}

/// Whether the file is the one at this path. The path of an open file that lies in a detached mount begins at the mount's own root.
fn is_at(place: &Path, file: &FileStat) -> bool {
    let found = open_below(AT_FDCWD, place, ResolveFlag::RESOLVE_NO_SYMLINKS).and_then(fstat);
    found.is_ok_and(|found| (found.st_dev, found.st_ino) == (file.st_dev, file.st_ino))
}

fn open_below(base: BorrowedFd, path: &Path, resolve: ResolveFlag) -> Result<OwnedFd, Errno> {
    let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC).resolve(resolve);
    openat2(base, path, how).map_err(|errno| if errno == Errno::ELOOP { Errno::EACCES } else { errno })
}

/// The address in the form that the socket takes: one of IPv4 in the form of IPv6 is none for a socket of IPv6 alone, and is plain for one
/// of IPv4.
fn for_socket(socket: &OwnedFd, address: SocketAddr) -> Result<SocketAddr, Errno> {
    let SocketAddr::V6(v6) = address else { return Ok(address) };
    let Some(v4) = v6.ip().to_ipv4_mapped() else { return Ok(address) };
    let port = address.port();
    Ok(match domain_of(socket)? {
        libc::AF_INET => SocketAddr::new(v4.into(), port),
        _ if option(socket, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY)? != 0 => {
            SocketAddr::new(Ipv6Addr::LOCALHOST.into(), port)
        }
        _ => address,
    })
}

fn local_address(socket: &OwnedFd) -> Result<SocketAddr, Errno> {
    let mut bytes = [0u8; MAX_BYTES];
    let mut length = bytes.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, and their number.
    let result = unsafe { libc::getsockname(socket.as_raw_fd(), bytes.as_mut_ptr().cast(), &raw mut length) };
    Errno::result(result)?;
    match Address::parse(&bytes) {
        Some(Address::Inet(address)) => Ok(address),
        _ => Err(Errno::EAFNOSUPPORT),
    }
}

/// Plain TCP. Another kind can only have come in with the program's own three descriptors.
fn is_tcp(socket: &OwnedFd) -> bool {
    let is_inet = matches!(domain_of(socket), Ok(libc::AF_INET | libc::AF_INET6));
    is_inet && option(socket, libc::SOL_SOCKET, libc::SO_PROTOCOL) == Ok(libc::IPPROTO_TCP)
}

fn domain_of(socket: &OwnedFd) -> Result<c_int, Errno> {
    option(socket, libc::SOL_SOCKET, libc::SO_DOMAIN)
}

fn option(socket: &OwnedFd, level: c_int, name: c_int) -> Result<c_int, Errno> {
    let (mut value, mut length) = (0 as c_int, size_of::<c_int>() as libc::socklen_t);
    // SAFETY: the kernel writes one int at most, and its length.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut length)
    };
    Errno::result(result).map(|_| value)
}

fn disconnect(socket: &OwnedFd) -> Result<(), Errno> {
    call_with(libc::connect, socket, &[0u8; 16])
}

type CallWithAddress = unsafe extern "C" fn(c_int, *const libc::sockaddr, libc::socklen_t) -> c_int;

fn call_with(call: CallWithAddress, socket: &OwnedFd, address: &[u8]) -> Result<(), Errno> {
    // SAFETY: the kernel reads the address, which lives for the call.
    let result =
        unsafe { call(socket.as_raw_fd(), address.as_ptr().cast(), address.len() as libc::socklen_t) };
    Errno::result(result).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_may_begin_in_a_place_of_its_own_process() {
        for (path, place) in [
            ("/proc/self/fd/7/a/b", Some(("fd/7", "a/b"))),
            ("/proc/self/fd/7", Some(("fd/7", ""))),
            ("/proc//self/./root/run/x", Some(("root", "run/x"))),
            ("/proc/self/cwd/../x", Some(("cwd", "../x"))),
            ("/proc/self/fd/../root/x", None),
            ("/proc/self/fd", None),
            ("/proc/self", None),
            ("/proc/self/task/1/cwd/x", None),
            ("/proc/selfish/root/x", None),
            ("/dev/fd/7/x", None),
            ("proc/self/fd/7", None),
        ] {
            let place = place.map(|(own, rest)| (PathBuf::from(own), Path::new(rest)));
            assert_eq!(own_place(Path::new(path)), place, "{path}");
        }
    }
}

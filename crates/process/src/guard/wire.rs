//! The lifeline's bytes on the host's side: the request out, the guard's frames in. PURE. The format itself is
//! `guard::protocol`, from which the guard is compiled as well.

use super::failure::GuardStage;
use super::guarded_spawn::GuardedSpawn;
use super::plan::Links;
use crate::spec::Containment;
use ground::os::unix::ProcFolder;
use guard::protocol::{
    self, FRAME_HEADER_BYTES, HEADER_BYTES, Header, MAX_BODY_BYTES, MAX_PAYLOAD_BYTES, u32_at, u64_at,
};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

pub(super) use guard::protocol::{COMMAND_KILL, COMMAND_RELEASE, COMMAND_SIGNAL, FLAG_TERMINAL, FLAG_TRIAL};

/// The spawn request to the guard.
pub(super) struct Request<'a> {
    pub spawn: &'a GuardedSpawn<'a>,
    /// An existing cgroup directory, for this run alone.
    pub cgroup: Option<&'a OsStr>,
    /// Flags of the protocol for what the spawn does not tell.
    pub flags: u32,
    pub host_pid: u32,
    /// Whose numbers are in /proc.
    pub proc: ProcFolder,
}

/// The reason why a request can't be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unencodable {
    /// A string has a NUL in it, which no system call could pass on.
    Nul,
    /// Beyond what any system takes.
    TooLong,
}

fn link_bits(links: Links) -> u64 {
    match links {
        Links::Free => 0,
        Links::NotAtEnd => protocol::PATH_IS_NO_LINK,
        Links::Nowhere => protocol::PATH_WITHOUT_LINKS,
    }
}

impl Request<'_> {
    pub(super) fn encode(&self) -> Result<Vec<u8>, Unencodable> {
        // The header goes in front when the body's length is known.
        let mut bytes = vec![0; HEADER_BYTES];
        let spawn = self.spawn;
        bytes.extend(spawn.sandbox.map(|plan| plan.encode(link_bits)).unwrap_or_default());
        let sandbox_bytes = bytes.len() - HEADER_BYTES;
        let mut push = |parts: &[&OsStr]| {
            for part in parts {
                if part.as_bytes().contains(&0) {
                    return Err(Unencodable::Nul);
                }
                bytes.extend_from_slice(part.as_bytes());
            }
            bytes.push(0);
            Ok(())
        };
        push(&[spawn.program.as_os_str()])?;
        push(&[spawn.cwd.map(Path::as_os_str).unwrap_or_default()])?;
        push(&[self.cgroup.unwrap_or_default()])?;
        for argument in spawn.arguments {
            push(&[argument])?;
        }
        for (name, value) in spawn.environment {
            push(&[name, OsStr::new("="), value])?;
        }
        for grant in spawn.sandbox.iter().flat_map(|plan| &plan.paths) {
            push(&[grant.path.as_os_str()])?;
        }
        let body_bytes =
            u32::try_from(bytes.len() - HEADER_BYTES).ok().filter(|bytes| *bytes <= MAX_BODY_BYTES);
        let mut flags = self.flags;
        for (wanted, flag) in [
            (spawn.limits.are_asked_for(), protocol::FLAG_CGROUP_REQUIRED),
            (spawn.containment == Containment::Strict, protocol::FLAG_PID_NAMESPACE),
            (spawn.lends_terminal, protocol::FLAG_LENT_TERMINAL),
            (matches!(self.proc, ProcFolder::Foreign { .. }), protocol::FLAG_FOREIGN_PROC),
        ] {
            if wanted {
                flags |= flag;
            }
        }
        let header = Header {
            flags,
            host_pid: self.host_pid,
            host_listed: match self.proc {
                ProcFolder::Own => self.host_pid,
                ProcFolder::Foreign { listed } => listed,
                ProcFolder::Absent => 0,
            },
            grace_ms: u32::try_from(spawn.grace.as_millis()).unwrap_or(u32::MAX),
            body_bytes: body_bytes.ok_or(Unencodable::TooLong)?,
            arguments: spawn.arguments.len() as u32,
            variables: spawn.environment.len() as u32,
            sandbox_bytes: sandbox_bytes as u32,
        };
        bytes[..HEADER_BYTES].copy_from_slice(&header.encode());
        Ok(bytes)
    }
}

/// A message from a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// The program has been executed. `pid` is 0 if it is not known outside of the guard's PID namespace.
    Started {
        pid: u32,
        in_cgroup: bool,
        /// Pid of the inner guard; 0 if it is not known outside of the guard's PID namespace.
        inner: u32,
    },
    SpawnError {
        stage: GuardStage,
        errno: i32,
        /// Name of the call, and its file if it is always the same.
        call: (&'static str, &'static str),
    },
    /// The program ended.
    Exited(Exit),
    /// All is over.
    Gone(StrayCount),
    /// A guard was killed; the other one has killed the tree.
    Lost(StrayCount),
    /// The killed are on their way out, but not gone.
    Dying,
    /// Comes with the listener of the sandbox's filter.
    Listener,
}

/// The end of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    /// The wait status of wait(2).
    pub status: i32,
    /// CPU time in user mode, of the program and the descendants it waited for.
    pub user: Duration,
    pub system: Duration,
    pub max_rss_bytes: u64,
}

/// Processes beside the program that were found at the end of the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StrayCount {
    /// Processes that were alive and had to be killed.
    pub strays_killed: u32,
    pub rounds: u32,
    /// Processes that could not be killed, because they belong to another user or are stuck in the kernel.
    pub left: u32,
}

/// Puts the guard's bytes together to reports.
#[derive(Debug, Default)]
pub(super) struct Reports {
    bytes: Vec<u8>,
}

/// The bytes are none of a guard's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Garbled;

impl Reports {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The kind of the next report, if it is there whole.
    fn next_kind(&self) -> Option<u8> {
        let (&[kind, _origin, low, high], rest) = self.bytes.split_first_chunk::<FRAME_HEADER_BYTES>()?;
        (rest.len() >= usize::from(u16::from_le_bytes([low, high]))).then_some(kind)
    }

    pub(super) fn is_any_whole(&self) -> bool {
        self.next_kind().is_some()
    }

    /// Whether the next whole report is the last one of a tree.
    pub(super) fn tell_the_end(&self) -> bool {
        matches!(self.next_kind(), Some(protocol::FRAME_GONE | protocol::FRAME_LOST))
    }

    /// The next whole report.
    pub(super) fn next(&mut self) -> Result<Option<Report>, Garbled> {
        let Some((&[kind, _origin, low, high], rest)) = self.bytes.split_first_chunk::<FRAME_HEADER_BYTES>()
        else {
            return Ok(None);
        };
        let length = usize::from(u16::from_le_bytes([low, high]));
        if length > MAX_PAYLOAD_BYTES {
            return Err(Garbled);
        }
        let Some(payload) = rest.get(..length) else { return Ok(None) };
        let report = parse_report(kind, payload).ok_or(Garbled)?;
        self.bytes.drain(..FRAME_HEADER_BYTES + length);
        Ok(Some(report))
    }
}

fn parse_report(kind: u8, payload: &[u8]) -> Option<Report> {
    let count = || {
        Some(StrayCount {
            strays_killed: u32_at(payload, 0)?,
            rounds: u32_at(payload, 4)?,
            left: u32_at(payload, 8)?,
        })
    };
    Some(match kind {
        protocol::FRAME_STARTED => {
            let in_cgroup = u32_at(payload, 4)? != 0;
            Report::Started { pid: u32_at(payload, 0)?, in_cgroup, inner: u32_at(payload, 8)? }
        }
        protocol::FRAME_SPAWN_ERROR => {
            let stage = match u32_at(payload, 0)? {
                protocol::STAGE_REQUEST => GuardStage::Request,
                protocol::STAGE_SUPERVISE => GuardStage::Supervise,
                protocol::STAGE_NAMESPACE => GuardStage::Namespace,
                protocol::STAGE_CGROUP => GuardStage::Cgroup,
                protocol::STAGE_FORK => GuardStage::Fork,
                protocol::STAGE_CHDIR => GuardStage::Chdir,
                protocol::STAGE_EXEC => GuardStage::Exec,
                protocol::STAGE_SANDBOX => GuardStage::Sandbox,
                protocol::STAGE_TERMINAL => GuardStage::Terminal,
                stage if stage & 0xffff == protocol::STAGE_SANDBOX_PATH => {
                    GuardStage::SandboxPath(stage >> 16)
                }
                _ => return None,
            };
            let call = protocol::call_of(u32_at(payload, 8)?);
            Report::SpawnError { stage, errno: u32_at(payload, 4)? as i32, call }
        }
        protocol::FRAME_EXITED => Report::Exited(Exit {
            status: u32_at(payload, 0)? as i32,
            user: Duration::from_micros(u64_at(payload, 4)?),
            system: Duration::from_micros(u64_at(payload, 12)?),
            max_rss_bytes: u64_at(payload, 20)?,
        }),
        protocol::FRAME_GONE => Report::Gone(count()?),
        protocol::FRAME_LOST => Report::Lost(count()?),
        protocol::FRAME_DYING => Report::Dying,
        protocol::FRAME_LISTENER => Report::Listener,
        _ => return None,
    })
}

/// A fuzz target: what a guard says, in pieces, and what a guard makes of what it is asked.
pub fn fuzz(bytes: &[u8]) {
    let read = |step: usize| {
        let mut reports = Reports::default();
        let mut found = Vec::new();
        for piece in bytes.chunks(step) {
            reports.push(piece);
            loop {
                match reports.next() {
                    Ok(Some(report)) => found.push(report),
                    Ok(None) => break,
                    Err(Garbled) => return (found, false),
                }
            }
        }
        (found, true)
    };
    assert_eq!(read(1), read(bytes.len().max(1)));
    let Some((header, body)) = bytes.split_first_chunk::<HEADER_BYTES>() else { return };
    let Some(header) = Header::decode(header) else { return };
    let body = body.get(..header.body_bytes as usize).unwrap_or(body);
    let strings = protocol::Strings(body);
    let ends = strings.inspect(|string| assert_eq!(string.iter().filter(|&&byte| byte == 0).count(), 1));
    assert!(ends.map(<[u8]>::len).sum::<usize>() <= body.len());
}

#[cfg(test)]
mod tests {
    use super::super::plan::Plan;
    use super::protocol::{Frame, Strings};
    use super::*;
    use crate::sandbox::Sandbox;
    use proptest::prelude::*;

    fn spawn<'a>(arguments: &'a [&'a OsStr], environment: &'a [(&'a OsStr, &'a OsStr)]) -> GuardedSpawn<'a> {
        let grace = Duration::from_millis(2000);
        GuardedSpawn { arguments, environment, grace, ..GuardedSpawn::of(Path::new("/bin/true")) }
    }

    fn encoded(spawn: &GuardedSpawn, proc: ProcFolder) -> Result<Vec<u8>, Unencodable> {
        Request { spawn, cgroup: None, flags: 0, host_pid: 7, proc }.encode()
    }

    #[test]
    fn what_becomes_of_the_killed_is_read_off_their_state() {
        use super::protocol::{Outlook, ProcessState};
        let with = |letter: &str, flags: u32| {
            format!("42 (a) R (b) {letter} 7 8 9 0 -1 {flags} 1 0 0 0 30 12 0 0 20 0 1 0 98 1 2")
        };
        for (letter, flags, outlook) in [
            ("R", 0x40_0000, Outlook::Ending),
            ("R", 0x40_0004, Outlook::Dying),
            ("S", 0x40_0000, Outlook::Ending),
            ("D", 0x40_0000, Outlook::Stuck),
            ("D", 0x40_0004, Outlook::Ending),
            ("Z", 0x40_000c, Outlook::Dying),
        ] {
            let state = ProcessState::parse(with(letter, flags).as_bytes()).unwrap();
            assert_eq!(
                (state.parent, state.flags, state.outlook()),
                (7, flags, outlook),
                "{letter} {flags:x}"
            );
        }
        assert_eq!(ProcessState::parse(b"42 (x"), None);
        assert_eq!(Outlook::Stuck.max(Outlook::Dying), Outlook::Dying);
    }

    #[test]
    fn a_request_is_these_bytes() {
        let arguments = [OsStr::new("true"), OsStr::new("")];
        let variables = [(OsStr::new("A"), OsStr::new("b=c"))];
        let spawn = GuardedSpawn { cwd: Some(Path::new("/tmp")), ..spawn(&arguments, &variables) };
        let bytes = encoded(&spawn, ProcFolder::Own).unwrap();
        let header: [u8; 40] = [
            b'S', b'H', b'P', b'G', 7, 0, 40, 0, 0, 0, 0, 0, 7, 0, 0, 0, 7, 0, 0, 0, 0xd0, 7, 0, 0, 28, 0, 0,
            0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(bytes[..40], header);
        assert_eq!(&bytes[40..], b"/bin/true\0/tmp\0\0true\0\0A=b=c\0");
        assert_eq!(bytes.len() - 40, 28);
        let bytes = encoded(&spawn, ProcFolder::Foreign { listed: 900 }).unwrap();
        assert_eq!((bytes[8], &bytes[12..20]), (16, &[7, 0, 0, 0, 0x84, 3, 0, 0][..]));
    }

    #[test]
    fn a_sandbox_stands_before_the_strings_and_its_paths_behind_them() {
        let sandbox = Sandbox { write: vec!["out".into()], ..Sandbox::default() };
        let plan = Plan::new(&sandbox, 7, true).unwrap();
        let arguments = [OsStr::new("true")];
        let spawn = GuardedSpawn { sandbox: Some(&plan), ..spawn(&arguments, &[]) };
        let bytes = encoded(&spawn, ProcFolder::Own).unwrap();
        let header = Header::decode(bytes.first_chunk().unwrap()).unwrap();
        let (section, strings) = bytes[HEADER_BYTES..].split_at(header.sandbox_bytes as usize);
        assert_eq!(section, plan.encode(link_bits));
        assert_eq!(section.len(), protocol::SANDBOX_HEAD_BYTES + (plan.paths.len() + plan.filter.len()) * 8);
        assert_eq!(strings, b"/bin/true\0\0\0true\0/dev/null\0out\0");
    }

    #[test]
    fn a_nul_in_any_string_is_refused() {
        let bad = OsStr::new("a\0b");
        let (good, variable) = (OsStr::new("a"), (OsStr::new("A"), bad));
        for spawn in [spawn(&[bad], &[]), spawn(&[good], &[variable])] {
            assert_eq!(encoded(&spawn, ProcFolder::Own), Err(Unencodable::Nul));
        }
    }

    #[test]
    fn a_header_of_another_version_or_with_impossible_counts_is_refused() {
        let good = Header {
            flags: 0,
            host_pid: 1,
            host_listed: 1,
            grace_ms: 0,
            body_bytes: 10,
            arguments: 1,
            variables: 0,
            sandbox_bytes: 0,
        };
        assert_eq!(Header::decode(&good.encode()), Some(good));
        let mut other_version = good.encode();
        other_version[4] += 1;
        assert_eq!(Header::decode(&other_version), None);
        assert_eq!(Header::decode(&Header { arguments: 0, ..good }.encode()), None);
        assert_eq!(Header::decode(&Header { arguments: 11, ..good }.encode()), None);
        assert_eq!(Header::decode(&Header { variables: 11, ..good }.encode()), None);
        assert_eq!(Header::decode(&Header { sandbox_bytes: 11, ..good }.encode()), None);
        assert_eq!(Header::decode(&Header { body_bytes: MAX_BODY_BYTES + 1, ..good }.encode()), None);
    }

    #[test]
    fn strings_end_with_the_body_even_without_a_last_nul() {
        let strings: Vec<&[u8]> = Strings(b"a\0\0bc").collect();
        assert_eq!(strings, [&b"a\0"[..], b"\0"]);
    }

    #[test]
    fn a_frame_comes_out_however_its_bytes_are_cut() {
        let exited =
            Frame::new(protocol::FRAME_EXITED, protocol::ORIGIN_INNER).u32(0x100).u64(5).u64(6).u64(4096);
        let gone = Frame::new(protocol::FRAME_GONE, protocol::ORIGIN_OUTER).u32(3).u32(2).u32(0);
        let bytes = [exited.bytes(), gone.bytes()].concat();
        for step in 1..=bytes.len() {
            let mut reports = Reports::default();
            let mut seen = Vec::new();
            for part in bytes.chunks(step) {
                reports.push(part);
                while let Some(report) = reports.next().unwrap() {
                    seen.push(report);
                }
            }
            let exit = Exit {
                status: 0x100,
                user: Duration::from_micros(5),
                system: Duration::from_micros(6),
                max_rss_bytes: 4096,
            };
            assert_eq!(
                seen,
                [Report::Exited(exit), Report::Gone(StrayCount { strays_killed: 3, rounds: 2, left: 0 })]
            );
        }
    }

    #[test]
    fn an_unknown_or_short_frame_is_garbled() {
        for bytes in [&[99, 0, 0, 0][..], &[protocol::FRAME_GONE, 0, 4, 0, 1, 0, 0, 0], &[1, 0, 255, 255]] {
            let mut reports = Reports::default();
            reports.push(bytes);
            assert_eq!(reports.next(), Err(Garbled), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn any_request_is_read_back_by_the_guards_own_parser(
            arguments in prop::collection::vec("[^\0]{0,20}", 1..8),
            variables in prop::collection::vec(("[^\0=]{1,8}", "[^\0]{0,20}"), 0..8),
        ) {
            let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
            let pairs: Vec<(&OsStr, &OsStr)> =
                variables.iter().map(|(name, value)| (OsStr::new(name), OsStr::new(value))).collect();
            let bytes = encoded(&spawn(&arguments, &pairs), ProcFolder::Own).unwrap();
            let header = Header::decode(bytes.first_chunk().unwrap()).unwrap();
            prop_assert_eq!(header.body_bytes as usize, bytes.len() - HEADER_BYTES);
            let strings: Vec<&[u8]> = Strings(&bytes[HEADER_BYTES..]).map(|text| &text[..text.len() - 1]).collect();
            prop_assert_eq!(strings.len(), 3 + arguments.len() + pairs.len());
            for (text, argument) in strings[3..].iter().zip(&arguments) {
                prop_assert_eq!(*text, argument.as_bytes());
            }
            for (text, (name, value)) in strings[3 + arguments.len()..].iter().zip(&variables) {
                prop_assert_eq!(text.to_vec(), format!("{name}={value}").into_bytes());
            }
        }

        #[test]
        fn no_bytes_of_a_peer_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut reports = Reports::default();
            reports.push(&bytes);
            while let Ok(Some(_)) = reports.next() {}
        }
    }
}

//! A run under guard, from the program's start to the end of its tree.

use super::cgroup::Cgroup;
use super::failure::{GuardFailure, GuardStage};
use super::leash::Leash;
use super::receive::receive;
use super::wire::{COMMAND_KILL, COMMAND_RELEASE, COMMAND_SIGNAL, Exit, Report, Reports, StrayCount};
use crate::launch::unix::wiring::Ends;
use crate::spec::{Containment, ContainmentLevel};
use ground::os::Fault;
use nix::sys::signal::Signal;
use std::io::{self, ErrorKind, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep, timeout};

/// The guards end a tree within milliseconds, and give up on what can't be killed after a second without any movement. If
/// they are silent for longer after a kill (they tell each second that it takes long), somebody holds them still.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// A guard that was stopped is woken within this. SIGCHLD, which would tell at once, is libuv's.
const WAKE_INTERVAL: Duration = Duration::from_millis(500);
/// For the outer guard to end once the tree is gone.
const EXIT_WITHIN: Duration = Duration::from_secs(1);

/// A program that runs under guard. Dropping it kills the tree.
#[derive(Debug)]
pub(crate) struct GuardedProcess {
    /// The program's. 0 in a PID namespace whose pids can't be seen from here.
    pub pid: u32,
    pub level: ContainmentLevel,
    pub lifeline: Lifeline,
    pub ends: Ends,
    /// The listener of the sandbox's filter, if the filter asks this process.
    pub listener: Option<OwnedFd>,
}

/// The host's end of a lifeline, made before its guard. Whatever comes of the start is noticed here: the guard reports, or its end
/// is closed.
#[derive(Debug)]
pub(crate) struct HostEnd(AsyncFd<Arc<UnixStream>>);

/// The parts of a lifeline that a start uses on its own thread.
#[derive(Debug)]
pub(crate) struct Line {
    pub(super) host: Arc<UnixStream>,
    pub(super) guard: UnixStream,
}

impl HostEnd {
    /// Needs tokio.
    pub(crate) fn new() -> io::Result<(HostEnd, Line)> {
        let (host, guard) = UnixStream::pair()?;
        host.set_nonblocking(true)?;
        let host = Arc::new(host);
        // Only for reading: each time the guard reads, the socket becomes writable, which would wake this thread.
        // SAFETY: the descriptor is owned by what is registered, and stays the same for its lifetime.
        let end = unsafe { AsyncFd::register_with_interest(host.clone(), Interest::READABLE) }?;
        Ok((HostEnd(end), Line { host, guard }))
    }

    /// Waits for the first report, or for the end of the start without one.
    pub(crate) async fn heard(&self) {
        // The readiness stays until the report is read.
        let _ = self.0.readable().await;
    }
}

/// A guard that has been started and is starting the program. Dropping it ends both.
#[derive(Debug)]
pub(crate) struct Launch {
    pub(super) guard: Leash,
    /// The part of the request that the socket did not take at once.
    pub(super) unsent: Vec<u8>,
    pub(super) containment: Containment,
    pub(super) cgroup: Option<Cgroup>,
    pub(super) ends: Ends,
}

impl Launch {
    /// Whether the guard waits for the rest of a long request.
    pub(crate) fn is_unfinished(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Waits until the program has been executed, or says why not. Needs tokio. `cut_short`: the start is given up, and what became of
    /// it is told: a failure when the program did not run, else a process that is being killed. Its pid is 0 when the guards could not
    /// say whether it ran; then its end is a loss.
    pub(crate) async fn started(
        self,
        end: HostEnd,
        cut_short: &Notify,
    ) -> Result<GuardedProcess, GuardFailure> {
        let Launch { guard, unsent, containment, cgroup, ends } = self;
        let mut lifeline = Lifeline {
            socket: end.0,
            guard,
            cgroup,
            reports: Reports::default(),
            listener: None,
            killed_at: None,
            pressed: false,
            look: Box::pin(sleep(WAKE_INTERVAL)),
            end: None,
        };
        let report = tokio::select! {
            report = async {
                lifeline.send_all(&unsent).await;
                lifeline.answer().await
            } => Some(report),
            () = cut_short.notified() => None,
        };
        let was_cut_short = report.is_none();
        let report = if let Some(report) = report { report } else { lifeline.cut_short().await };
        match report {
            Some(Report::Started { pid, in_cgroup, inner }) => {
                lifeline.guard.set_inner(inner as i32);
                let level = match containment {
                    Containment::Strict => ContainmentLevel::PidNamespace,
                    _ if in_cgroup => ContainmentLevel::GuardCgroup,
                    _ => ContainmentLevel::Guard,
                };
                let listener = lifeline.listener.take();
                Ok(GuardedProcess { pid, level, lifeline, ends, listener })
            }
            Some(Report::SpawnError { stage, errno, call: (call, file) }) => {
                lifeline.reap().await;
                let file = lifeline.file_of(stage, file);
                Err(GuardFailure { stage, fault: Fault::of_errno(call, file.as_deref(), errno) })
            }
            other if was_cut_short => {
                let count = match other {
                    Some(Report::Lost(count) | Report::Gone(count)) => Some(count),
                    _ => None,
                };
                lifeline.end = Some(GuardEvent::Lost(count));
                let level = ContainmentLevel::Guard;
                Ok(GuardedProcess { pid: 0, level, lifeline, ends, listener: None })
            }
            _ => {
                let fault = Fault::of("recvmsg", None, &ErrorKind::UnexpectedEof.into());
                Err(GuardFailure { stage: GuardStage::Lost, fault })
            }
        }
    }
}

/// The events of a run, in this order: at most one `Exited`, then `Gone` or `Lost`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GuardEvent {
    /// The program ended; what it left behind lives until `kill` or `release` is called. When it left nothing, `Gone` follows by itself.
    Exited(Exit),
    /// Every process that had to end has ended, and so have the guards.
    Gone(StrayCount),
    /// A guard was killed. `Some`: the other one has killed the tree; the program is counted among the strays when the
    /// inner guard is the one that died. `None`: nobody could say so, both were killed.
    Lost(Option<StrayCount>),
    /// After a kill, any number of times: the killed are on their way out, but not gone.
    Dying,
}

/// The conversation with a run's guards.
#[derive(Debug)]
pub(crate) struct Lifeline {
    socket: AsyncFd<Arc<UnixStream>>,
    guard: Leash,
    /// Declared after `guard`, so that the cgroup is removed after the guard was dropped and left to end by itself.
    cgroup: Option<Cgroup>,
    reports: Reports,
    /// Came with a report.
    listener: Option<OwnedFd>,
    /// When `kill` was called, or the guards were last pressed.
    killed_at: Option<Instant>,
    pressed: bool,
    /// When the guards are looked at next: whoever may signal them may have stopped them. It lives as long as the lifeline, since
    /// who waits for a report may be dropped half way as often as the program prints.
    look: Pin<Box<Sleep>>,
    /// The last event, while the outer guard's end is waited for, and after.
    end: Option<GuardEvent>,
}

impl Lifeline {
    /// Kills whatever runs, and ends the conversation; the next report. A guard whose program hangs in its own start (a file on a dead
    /// network folder) can't obey: then the outer one kills it.
    async fn cut_short(&mut self) -> Option<Report> {
        self.kill();
        self.press();
        timeout(ANSWER_WITHIN, self.answer()).await.ok().flatten()
    }

    /// The result of the start.
    async fn answer(&mut self) -> Option<Report> {
        loop {
            match self.report().await {
                Some(Report::Listener) => {}
                report => return report,
            }
        }
    }

    /// The outer guard's pid: the root of everything that belongs to the run.
    pub(crate) fn guard_pid(&self) -> u32 {
        self.guard.pid() as u32
    }

    /// Signals the program's group, as long as the program itself runs.
    pub(crate) fn signal(&mut self, signal: Signal) {
        // No number is larger than 64.
        self.send(COMMAND_SIGNAL | signal as u8);
    }

    /// After `Exited`: what the program left behind lives on.
    pub(crate) fn release(&mut self) {
        if !self.is_over() {
            self.send(COMMAND_RELEASE);
        }
    }

    /// Whether the guards have reported the end already: a program that leaves nothing behind ends together with its tree.
    fn is_over(&self) -> bool {
        self.end.is_some() || self.reports.tell_the_end()
    }

    /// Whether a report is there, by the socket itself: right after a stop of this process the runtime's knowledge is outdated.
    pub(crate) fn has_news(&mut self) -> bool {
        let mut bytes = [0; 256];
        if let Ok(length) = receive(self.socket.get_ref(), &mut bytes, &mut self.listener) {
            self.reports.push(&bytes[..length]);
        }
        self.reports.is_any_whole()
    }

    /// SIGKILL to the whole tree; after `Exited`, to what the program left behind.
    pub(crate) fn kill(&mut self) {
        if self.is_over() {
            return;
        }
        self.send(COMMAND_KILL);
        // Somebody may have stopped them.
        self.guard.wake();
        self.killed_at.get_or_insert_with(Instant::now);
    }

    /// The next event; after the last one, the last one again. May be dropped half way and called again.
    pub(crate) async fn next(&mut self) -> GuardEvent {
        loop {
            if let Some(end) = self.end {
                self.reap().await;
                if let Some(cgroup) = self.cgroup.take()
                    && matches!(end, GuardEvent::Lost(_))
                {
                    // Both guards may have been killed. The kernel can still kill by cgroup.
                    cgroup.kill();
                }
                return end;
            }
            let report = match self.killed_at {
                None => self.report().await,
                Some(at) => match tokio::time::timeout_at(at + ANSWER_WITHIN, self.report()).await {
                    Ok(report) => report,
                    Err(_) if !self.pressed => {
                        self.press();
                        continue;
                    }
                    Err(_) => None,
                },
            };
            match report {
                Some(Report::Exited(exit)) => return GuardEvent::Exited(exit),
                Some(Report::Dying) => {
                    self.killed_at = Some(Instant::now());
                    return GuardEvent::Dying;
                }
                Some(Report::Gone(count)) => self.end = Some(GuardEvent::Gone(count)),
                Some(Report::Lost(count)) => self.end = Some(GuardEvent::Lost(Some(count))),
                None => self.end = Some(GuardEvent::Lost(None)),
                // Not after the start; harmless.
                Some(Report::Started { .. } | Report::SpawnError { .. } | Report::Listener) => {}
            }
        }
    }

    /// The guards do not answer: wakes the outer one and ends the conversation, on which it kills the inner one.
    fn press(&mut self) {
        self.pressed = true;
        self.killed_at = Some(Instant::now());
        self.guard.wake();
        // Their reports can still be read. The other end may be gone: then that is what comes next.
        let _ = self.socket.get_ref().shutdown(Shutdown::Write);
    }

    /// The file of a call that failed at this stage; `named`: its file if that is always the same, else empty.
    fn file_of(&self, stage: GuardStage, named: &str) -> Option<PathBuf> {
        match &self.cgroup {
            Some(cgroup) if stage == GuardStage::Cgroup => {
                Some(Path::new(cgroup.path()).join("cgroup.procs"))
            }
            _ => (!named.is_empty()).then(|| named.into()),
        }
    }

    /// Waits for the outer guard. A guard that does not end in time is killed, because its work is done.
    async fn reap(&mut self) {
        if self.guard.has_ended() {
            return;
        }
        if timeout(EXIT_WITHIN, self.guard.ended()).await.is_err() {
            self.guard.kill();
            // Bounded as well: a process in a system call that does not end is left to the leash's drop.
            let _ = timeout(EXIT_WITHIN, self.guard.ended()).await;
        }
    }

    fn send(&mut self, command: u8) {
        // One byte into a socket that the guards empty at once. If they are gone, `next` says so.
        let mut socket = self.socket.get_ref().as_ref();
        let _ = socket.write(&[command]);
    }

    /// The rest of a long request. An end of the conversation is noticed by whoever reads.
    async fn send_all(&self, mut bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let Ok(copy) = self.socket.get_ref().try_clone() else { return };
        // SAFETY: the descriptor is owned by what is registered, and stays the same for its lifetime.
        let Ok(socket) = (unsafe { AsyncFd::register_with_interest(copy, Interest::WRITABLE) }) else {
            return;
        };
        while !bytes.is_empty() {
            let Ok(mut ready) = socket.writable().await else { return };
            match ready.try_io(|socket| socket.get_ref().write(bytes)) {
                Ok(Ok(sent)) => bytes = &bytes[sent..],
                Ok(Err(error)) if error.kind() == ErrorKind::Interrupted => {}
                Ok(Err(_)) => return,
                Err(_would_block) => {}
            }
        }
    }

    /// `None`: there will be none any more.
    async fn report(&mut self) -> Option<Report> {
        loop {
            match self.reports.next() {
                Ok(Some(report)) => return Some(report),
                Ok(None) => {}
                Err(_garbled) => return None,
            }
            let mut bytes = [0; 256];
            let ready = tokio::select! {
                ready = self.socket.readable() => ready,
                () = &mut self.look => {
                    self.guard.wake_if_stopped();
                    self.look.as_mut().reset(Instant::now() + WAKE_INTERVAL);
                    continue;
                }
            };
            let mut ready = ready.ok()?;
            match ready.try_io(|socket| receive(socket.get_ref(), &mut bytes, &mut self.listener)) {
                Ok(Ok(0)) => return None,
                Ok(Ok(length)) => self.reports.push(&bytes[..length]),
                Ok(Err(error)) if error.kind() == ErrorKind::Interrupted => {}
                Ok(Err(_)) => return None,
                Err(_would_block) => {}
            }
        }
    }
}

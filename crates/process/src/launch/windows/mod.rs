//! Launching on Windows: the program is created suspended, put into a job, and then resumed. So everything that it ever starts is in the
//! job, which the kernel ends together with this process. No guard is needed. Run under wine only.

mod wiring;

use super::launched::{Launched, NotLaunched};
use super::preparation::Preparation;
use super::refusal::{no_limits, no_sandbox, no_thread};
use super::tree_event::{ExitStatus, TreeEvent};
use super::turn::Turn;
use super::wires::Wires;
use crate::command_fault::spawn_error;
use crate::resolved_command::ResolvedCommand;
use crate::sandbox::report::SandboxSupport;
use crate::spec::{Containment, ContainmentLevel, ProcessSpec, ProcessUsage, Stdio, Strays};
use ground::error::{Error, ErrorCode, Result};
use ground::os::windows::job::Job;
use ground::os::windows::{break_group, exit_code, resume};
use ground::os::{Fault, SHELL, blocking, wait_for_exit};
use ground::signal::Signal;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::windows::io::{AsRawHandle, OwnedHandle};
use std::os::windows::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio as Handle};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use windows_sys::Win32::System::Threading::{CREATE_NEW_PROCESS_GROUP, CREATE_SUSPENDED};
use wiring::Wiring;

/// How often a job that was killed is asked whether it is empty. The system does not promise to tell.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// The processes of a run.
pub(crate) struct Tree {
    job: Job,
    pid: u32,
    /// While it is held, the number belongs to no other process.
    process: OwnedHandle,
    state: Life,
    /// Members that were alive when the job was killed, without the command itself.
    killed: HashSet<u32>,
}

enum Life {
    Running(JoinHandle<()>),
    Exited,
    Ending {
        strays: Strays,
        /// The fewest members that were seen alive.
        living: u32,
    },
    Gone,
}

impl Tree {
    /// The next event. Cancel safe.
    /// An exit is reported by `next` alone.
    pub(crate) fn look(&mut self) -> Option<TreeEvent> {
        None
    }

    pub(crate) async fn next(&mut self) -> TreeEvent {
        match &mut self.state {
            Life::Running(exit) => match exit.await {
                Ok(()) => {
                    self.state = Life::Exited;
                    TreeEvent::Exited
                }
                // Without the exit there is no status, and nothing more to wait for.
                Err(_) => {
                    self.kill();
                    self.state = Life::Gone;
                    TreeEvent::Lost {
                        strays_killed: self.killed.len() as u32,
                        strays_left: self.job.living(),
                    }
                }
            },
            Life::Ending { strays, living } => {
                while *strays == Strays::Kill {
                    match self.job.living() {
                        0 => break,
                        // A large job ends piece by piece: each piece is a sign that the rest will.
                        left if left < *living => {
                            *living = left;
                            return TreeEvent::Dying;
                        }
                        _ => tokio::time::sleep(LOOK_INTERVAL).await,
                    }
                }
                self.state = Life::Gone;
                TreeEvent::Gone {
                    status: ExitStatus { code: exit_code(&self.process), signal: None },
                    usage: self.usage(),
                    strays_killed: self.killed.len() as u32,
                    strays_left: self.job.living(),
                }
            }
            Life::Exited | Life::Gone => std::future::pending().await,
        }
    }

    /// Asks the program to end, as far as there is a way: Ctrl-Break, which reaches all programs of its console group. SIGKILL kills
    /// the tree. Other signals do not exist.
    pub(crate) fn signal(&mut self, signal: Signal) {
        match signal {
            Signal::Kill => self.kill(),
            Signal::Int | Signal::Term | Signal::Hup | Signal::Quit => break_group(self.pid),
            _ => {}
        }
    }

    /// Kills everything, now.
    pub(crate) fn kill(&mut self) {
        if matches!(self.state, Life::Gone) {
            return;
        }
        self.killed.extend(self.job.members().into_iter().filter(|pid| *pid != self.pid));
        self.job.kill();
    }

    /// After `Exited`: kill what is left, or let it live. `Gone` follows.
    pub(crate) fn finish(&mut self, strays: Strays) {
        if !matches!(self.state, Life::Exited) {
            return;
        }
        match strays {
            Strays::Kill => self.kill(),
            // A refusal leaves them to the end of the job: better killed than forgotten.
            Strays::Keep => drop(self.job.let_go()),
        }
        self.state = Life::Ending { strays, living: self.job.living() };
    }

    /// Whether a process of the run is alive.
    pub(crate) fn has_group(&self) -> bool {
        self.job.living() > 0
    }

    /// The process that everything of the run is below.
    pub(crate) fn root(&self) -> i32 {
        self.pid.cast_signed()
    }

    fn usage(&self) -> ProcessUsage {
        let used = self.job.usage();
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        ProcessUsage {
            user_ms: millis(used.user),
            system_ms: millis(used.kernel),
            max_rss_bytes: used.peak_process_bytes,
        }
    }
}

/// Starts the prepared program.
pub(super) async fn launch(
    preparation: Preparation,
    spec: &ProcessSpec,
    turn: &Turn,
    cut_short: &Notify,
) -> std::result::Result<Launched<Tree>, NotLaunched> {
    check(spec)?;
    let wires = Wires::of(spec);
    let spawning = blocking(move || spawn(preparation()?, wires));
    let spawned = tokio::select! {
        spawned = spawning => Ok(spawned),
        // The thread may still start the program; the result is dropped there, which kills it.
        () = cut_short.notified() => Err(NotLaunched::Unknown),
    };
    turn.give_back();
    Ok(spawned?.map_err(no_thread)??)
}

/// Refuses what is missing on Windows.
fn check(spec: &ProcessSpec) -> Result<()> {
    if spec.containment == Containment::Strict {
        return Err(Error::new(
            ErrorCode::ContainmentUnavailable,
            "PID namespaces exist on Linux only: leave out `containment: \"strict\"`",
        )
        .with("containment", "strict"));
    }
    if spec.sandbox.is_some() {
        return Err(no_sandbox("it needs Linux"));
    }
    if spec.memory_max_bytes.is_some() || spec.max_processes.is_some() {
        return Err(no_limits(None));
    }
    if let Stdio::Terminal(_) = spec.stdio {
        return Err(Error::invalid_option("pty", "is unsupported on Windows"));
    }
    Ok(())
}

fn spawn(command: ResolvedCommand, wires: Wires) -> Result<Launched<Tree>> {
    let refused =
        |error: io::Error| spawn_error(&command, &Fault::of("CreateProcess", Some(&command.program), &error));
    let Wiring { program, pipes } = wires.lay(command.input.as_ref()).map_err(refused)?;
    let job = Job::new().map_err(refused)?;
    let spawned = Instant::now();
    let child = suspended(&command, program).map_err(refused)?;
    let mut child = KilledUnlessHeld(Some(child));
    let pid = child.begin(&job).map_err(refused)?;
    let Some(child) = child.0.take() else { return Err(refused(io::ErrorKind::NotFound.into())) };
    let state = Life::Running(wait_for_exit(pid.cast_signed()));
    let tree = Tree { job, pid, process: child.into(), state, killed: HashSet::new() };
    Ok(Launched { pid, spawned, level: ContainmentLevel::Job, pipes, tree })
}

/// std quotes the arguments, and refuses those of a batch file that can't be quoted. A command of the shell is no list of arguments:
/// it stands between two quotes as it is, and the shell takes these off.
fn suspended(command: &ResolvedCommand, [stdin, stdout, stderr]: [OwnedHandle; 3]) -> io::Result<Child> {
    let mut builder = Command::new(&command.program);
    let arguments = command.argv.get(1..).unwrap_or_default();
    match shell_command(&command.program, arguments) {
        Some((before, line)) => builder.args(before).raw_arg(quoted(line)),
        None => builder.args(arguments),
    };
    builder
        .env_clear()
        .envs(command.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Handle::from(stdin))
        .stdout(Handle::from(stdout))
        .stderr(Handle::from(stderr))
        .creation_flags(CREATE_SUSPENDED | CREATE_NEW_PROCESS_GROUP);
    if let Some(cwd) = &command.cwd {
        builder.current_dir(cwd);
    }
    builder.spawn()
}

/// The arguments before the command, and the command, if the program is the shell and is called as [`SHELL`] says.
fn shell_command<'a>(program: &Path, arguments: &'a [OsString]) -> Option<(&'a [OsString], &'a OsStr)> {
    let (shell, switches) = SHELL;
    let is_shell = program.file_name().is_some_and(|name| name.eq_ignore_ascii_case(shell));
    let (line, before) = arguments.split_last()?;
    let is_called_so = before.iter().map(OsString::as_os_str).eq(switches.iter().map(OsStr::new));
    (is_shell && is_called_so).then_some((before, line))
}

fn quoted(line: &OsStr) -> OsString {
    let mut quoted = OsString::from("\"");
    quoted.push(line);
    quoted.push("\"");
    quoted
}

/// A process that has not run yet, and never will if it can't be put into its job.
struct KilledUnlessHeld(Option<Child>);

impl KilledUnlessHeld {
    fn begin(&self, job: &Job) -> io::Result<u32> {
        let Some(child) = &self.0 else { return Err(io::ErrorKind::NotFound.into()) };
        job.add(child.as_raw_handle())?;
        resume(child.as_raw_handle())?;
        Ok(child.id())
    }
}

impl Drop for KilledUnlessHeld {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
        }
    }
}

/// The version of Landlock: none.
pub(crate) fn landlock_version() -> u32 {
    0
}

/// The sandbox features of this system: none.
pub(crate) fn sandbox_support() -> SandboxSupport {
    SandboxSupport::new(0, false)
}

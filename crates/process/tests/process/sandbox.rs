//! A hostile program in a sandbox, and the same program without one: what is refused there must be done here.
#![cfg(target_os = "linux")]

use super::{failure_of, result_of, shell};
use process::{Containment, Network, ProcessSpec, Sandbox};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

static HOSTILE: OnceLock<PathBuf> = OnceLock::new();

/// Compiled once.
fn hostile() -> &'static Path {
    HOSTILE.get_or_init(|| {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("hostile-{}", std::process::id()));
        let source =
            Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("fixtures/sandbox/hostile.rs");
        let status = std::process::Command::new("rustc")
            .args(["--edition", "2024", "-o"])
            .args([&program, &source])
            .status()
            .expect("rustc");
        assert!(status.success(), "the hostile program does not compile");
        program
    })
}

struct Ground {
    _folder: tempfile::TempDir,
    inside: PathBuf,
    outside: PathBuf,
    listener: TcpListener,
    /// Open for writing, and inherited by whoever is executed without care.
    _leaked: std::fs::File,
}

/// One for all tests: its name is of this process.
static ABSTRACT: OnceLock<UnixListener> = OnceLock::new();

impl Ground {
    /// Everybody may write everywhere: only the sandbox refuses.
    fn new() -> Ground {
        let folder = tempfile::tempdir().expect("a folder");
        let open =
            |path: &Path| std::fs::set_permissions(path, PermissionsExt::from_mode(0o777)).expect("open");
        open(folder.path());
        let [inside, outside] = ["inside", "outside"].map(|name| folder.path().join(name));
        for part in [&inside, &outside] {
            std::fs::create_dir_all(part.join("folder")).expect("a folder");
            std::fs::write(part.join("file"), "content").expect("a file");
            for path in [part.clone(), part.join("folder"), part.join("file")] {
                open(&path);
            }
        }
        ABSTRACT.get_or_init(|| {
            let name = format!("sheepdog-hostile-{}", std::process::id());
            let address = SocketAddr::from_abstract_name(name).expect("a name");
            UnixListener::bind_addr(&address).expect("an abstract socket")
        });
        let leaked = std::fs::OpenOptions::new().append(true).open(outside.join("file")).expect("a file");
        nix::fcntl::fcntl(&leaked, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()))
            .expect("inheritable");
        Ground {
            _folder: folder,
            inside,
            outside,
            listener: TcpListener::bind("127.0.0.1:0").expect("a port"),
            _leaked: leaked,
        }
    }

    fn port(&self) -> u16 {
        self.listener.local_addr().expect("an address").port()
    }

    fn spec(&self, sandbox: Option<Sandbox>) -> ProcessSpec {
        let mut arguments: Vec<String> =
            [&self.inside, &self.outside].map(|path| path.display().to_string()).into();
        arguments.extend([self.port().to_string(), std::process::id().to_string()]);
        let mut spec = ProcessSpec::new(hostile().display().to_string(), arguments);
        spec.sandbox = sandbox;
        spec
    }

    fn sandbox(&self, network: Network) -> Sandbox {
        Sandbox { write: vec![self.inside.clone()], network, ..Sandbox::default() }
    }
}

/// Linux of this version or newer; an older one skips what needs it, by name, and fails where everything has to run.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn is_linux(wanted: (u32, u32), test: &str) -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if found < wanted {
        assert!(std::env::var_os("CI").is_none(), "{test} needs Linux {wanted:?}");
        eprintln!("SKIPPED {test}: needs Linux {wanted:?}");
    }
    found >= wanted
}

/// The outcome of each attempt, by its name.
async fn attempts(spec: ProcessSpec) -> BTreeMap<String, String> {
    let result = result_of(spec).await;
    assert_eq!(result.exit_code, Some(0), "{}", result.stderr);
    let lines = result.stdout.lines().filter_map(|line| line.split_once(' '));
    lines.map(|(name, outcome)| (name.to_owned(), outcome.to_owned())).collect()
}

const ALLOWED: [&str; 12] = [
    "limits-read",
    "own-limits",
    "own-priority",
    "own-io-priority",
    "own-affinity",
    "inside-write",
    "inside-create",
    "inside-rename",
    "inside-unlink",
    "inside-mkdir",
    "read-outside",
    "null-device",
];
const NETWORK: [&str; 7] =
    ["connect", "connect-mptcp", "connect-fast-open", "connect-fast-open-later", "listen", "udp", "io-uring"];
/// Refused by the system in any case, for want of privilege, or where a machine is set up so.
const PRIVILEGED: [&str; 24] = [
    "mount",
    "make-device-inside",
    "capabilities",
    "capabilities-of-a-child",
    "mount-attributes",
    "bpf",
    "tracing",
    "trace",
    "environment",
    "memory-read",
    "memory-write",
    "compare",
    "descriptor",
    "key",
    "keyring",
    "pages",
    "posix-queue",
    "message-queue",
    "queue-send",
    "queue-receive",
    "queue-notice",
    "namespace-mount",
    "namespace-tree",
    "namespace-attributes",
];
/// Attempts that only newer kernels refuse.
const SCOPED: [&str; 2] = ["signal", "abstract-socket"];

#[tokio::test]
async fn without_a_sandbox_the_hostile_program_does_what_it_likes() {
    let ground = Ground::new();
    let seen = attempts(ground.spec(None)).await;
    for (name, outcome) in &seen {
        // Attempts that this machine lacks kernel support or a privilege for prove nothing below.
        if ["connect-mptcp", "io-uring", "inherited-descriptor", "ioctl", "connect-fast-open"]
            .contains(&name.as_str())
            || PRIVILEGED.contains(&name.as_str())
        {
            continue;
        }
        assert_eq!(outcome, "done", "{name}");
    }
    assert!(seen.len() > 30, "{seen:?}");
}

#[tokio::test]
async fn nothing_outside_is_changed_by_whatever_way() {
    if !is_linux((6, 10), "nothing_outside_is_changed_by_whatever_way") {
        return;
    }
    let ground = Ground::new();
    let seen = attempts(ground.spec(Some(ground.sandbox(Network::All)))).await;
    let mut faults = Vec::new();
    for (name, outcome) in &seen {
        let name = name.as_str();
        let is_as_it_should = if ALLOWED.contains(&name) {
            outcome == "done"
        } else {
            NETWORK.contains(&name) || SCOPED.contains(&name) || outcome.starts_with("refused")
        };
        if !is_as_it_should {
            faults.push(format!("{name}: {outcome}"));
        }
    }
    assert!(faults.is_empty(), "{faults:?}");
    assert!(seen.len() > 60, "{}", seen.len());
    assert_eq!(seen["connect"], "done");
    let left: Vec<_> = std::fs::read_dir(&ground.outside).expect("a folder").flatten().collect();
    assert_eq!(left.len(), 2, "{left:?}");
    assert_eq!(std::fs::read_to_string(ground.outside.join("file")).expect("the file"), "content");
}

#[tokio::test]
async fn no_network_is_no_socket_but_unix() {
    let ground = Ground::new();
    let seen = attempts(ground.spec(Some(ground.sandbox(Network::None)))).await;
    for name in NETWORK {
        assert!(seen[name].starts_with("refused"), "{name}: {}", seen[name]);
    }
}

#[tokio::test]
async fn a_port_that_is_not_listed_is_reached_by_no_way() {
    if !is_linux((6, 7), "a_port_that_is_not_listed_is_reached_by_no_way") {
        return;
    }
    let ground = Ground::new();
    let other = Network::Ports(vec![ground.port() ^ 1]);
    let seen = attempts(ground.spec(Some(ground.sandbox(other)))).await;
    for name in ["connect", "connect-mptcp", "connect-fast-open", "connect-fast-open-later", "io-uring"] {
        assert!(seen[name].starts_with("refused"), "{name}: {}", seen[name]);
    }
    assert_eq!(seen["listen"], "done", "ports are of connecting");
    let seen = attempts(ground.spec(Some(ground.sandbox(Network::Ports(vec![ground.port()]))))).await;
    assert_eq!(seen["connect"], "done");
    assert!(seen["connect-mptcp"].starts_with("refused"));
}

#[tokio::test]
async fn processes_outside_are_out_of_reach() {
    if !is_linux((6, 12), "processes_outside_are_out_of_reach") {
        return;
    }
    let ground = Ground::new();
    let seen = attempts(ground.spec(Some(ground.sandbox(Network::All)))).await;
    for name in SCOPED {
        assert!(seen[name].starts_with("refused"), "{name}: {} (Linux 6.12 or newer)", seen[name]);
    }
}

#[tokio::test]
async fn what_is_not_listed_is_not_read() {
    let ground = Ground::new();
    let system = ["/usr", "/bin", "/lib", "/lib64", "/etc", "/proc", "/dev"].map(PathBuf::from);
    let read: Vec<PathBuf> = system.into_iter().filter(|path| path.exists()).collect();
    let sandbox = Sandbox { read: Some(read), ..ground.sandbox(Network::All) };
    let mut spec =
        shell(&format!("cat {0}/outside/file; cat {0}/inside/file; true", ground._folder.path().display()));
    spec.sandbox = Some(sandbox);
    let result = result_of(spec).await;
    assert_eq!(result.stdout, "content");
    assert!(result.stderr.contains("ermission denied"), "{}", result.stderr);
}

#[tokio::test]
async fn a_program_that_may_not_be_read_is_not_executed_and_the_message_says_why() {
    let mut spec = shell("true");
    spec.sandbox = Some(Sandbox { read: Some(vec!["/etc".into()]), ..Sandbox::default() });
    let outcome = super::outcome_of(spec).await;
    let error = outcome.error.as_ref().expect("an error");
    assert_eq!(error.code().as_str(), "PROCESS_NOT_EXECUTABLE");
    assert!(error.message().contains("sandbox.read"), "{error}");
}

#[tokio::test]
async fn a_path_that_does_not_exist_is_a_wrong_option() {
    let mut spec = shell("true");
    spec.sandbox = Some(Sandbox { write: vec!["/".into(), "/no/such/folder".into()], ..Sandbox::default() });
    let outcome = super::outcome_of(spec).await;
    let error = outcome.error.as_ref().expect("an error");
    assert_eq!(error.code().as_str(), "INVALID_OPTION");
    assert!(error.message().starts_with("sandbox.write[1]: /no/such/folder: No such file"), "{error}");
}

#[tokio::test]
async fn paths_are_relative_to_the_working_directory() {
    let ground = Ground::new();
    let mut spec = shell("echo x > inside/made && echo x > outside/made");
    spec.cwd = Some(ground._folder.path().to_owned());
    spec.sandbox = Some(Sandbox { write: vec!["inside".into()], ..Sandbox::default() });
    let result = result_of(spec).await;
    assert_ne!(result.exit_code, Some(0));
    assert!(ground.inside.join("made").exists() && !ground.outside.join("made").exists());
}

#[tokio::test]
async fn the_strict_level_has_it_too_and_the_group_level_refuses_it() {
    let ground = Ground::new();
    let mut spec = ground.spec(Some(ground.sandbox(Network::All)));
    spec.containment = Containment::Strict;
    let outcome = super::outcome_of(spec.clone()).await;
    // A machine may forbid namespaces; never the sandbox alone.
    if let Some(result) = &outcome.result {
        assert!(result.stdout.contains("write refused"), "{}", result.stdout);
    }
    spec.containment = Containment::Group;
    let (code, result) = failure_of(spec).await;
    assert_eq!((code, result.is_none()), ("SANDBOX_UNAVAILABLE", true));
}

#[tokio::test]
async fn a_program_that_has_its_guard_trace_it_goes_on() {
    let result = result_of(ProcessSpec::new(hostile().display().to_string(), ["traced"])).await;
    assert_eq!((result.stdout.as_str(), result.exit_code), ("went on\n", Some(7)), "{}", result.stderr);
}

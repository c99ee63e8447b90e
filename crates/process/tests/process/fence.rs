//! A program that tries to reach what its sandbox does not name, and the same program without one: what is refused there must be done here.
#![cfg(target_os = "linux")]

use super::{outcome_of, result_of, shell, spawn};
use ground::error::Error;
use process::{Containment, Egress, Gate, Hosts, Network, ProcessSpec, Refused, Sandbox, Strays, Traffic};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

static REACH: OnceLock<PathBuf> = OnceLock::new();

/// Compiled once.
fn reach() -> &'static Path {
    REACH.get_or_init(|| {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("reach-{}", std::process::id()));
        let source =
            Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("fixtures/sandbox/reach.rs");
        let status = std::process::Command::new("rustc")
            .args(["--edition", "2024", "-o"])
            .args([&program, &source])
            .status()
            .expect("rustc");
        assert!(status.success(), "the program does not compile");
        program
    })
}

/// Stands for a proxy: a port that somebody listens on.
#[derive(Clone, Debug, Default)]
struct Port {
    gate: u16,
    listed: Vec<u16>,
    redirects: Vec<(u16, u16)>,
}

impl Egress for Port {
    fn open(&self, _: &Traffic, _: &[(std::ffi::OsString, std::ffi::OsString)]) -> Result<Gate, Error> {
        Ok(Gate {
            port: self.gate,
            environment: vec![("GATE".into(), self.gate.to_string())],
            redirects: self.redirects.clone(),
            folder: None,
            server: Box::new(()),
        })
    }

    fn local_ports(&self) -> Vec<u16> {
        self.listed.clone()
    }
}

struct Ground {
    folder: tempfile::TempDir,
    gate: TcpListener,
    other: TcpListener,
    _sockets: Vec<UnixListener>,
    _datagrams: UnixDatagram,
    name: String,
}

impl Ground {
    fn new(test: &str) -> Ground {
        let folder = tempfile::tempdir().expect("a folder");
        let [inside, outside] = ["inside", "outside"].map(|name| folder.path().join(name));
        let mut sockets = Vec::new();
        for part in [&inside, &outside] {
            std::fs::create_dir(part).expect("a folder");
            sockets.push(UnixListener::bind(part.join("socket")).expect("a socket"));
        }
        let datagrams = UnixDatagram::bind(outside.join("datagrams")).expect("a socket");
        let name = format!("sheepdog-reach-{}-{test}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        sockets.push(UnixListener::bind_addr(&address).expect("an abstract socket"));
        let listen = || TcpListener::bind("127.0.0.1:0").expect("a port");
        Ground { folder, gate: listen(), other: listen(), _sockets: sockets, _datagrams: datagrams, name }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn ports(&self) -> [u16; 2] {
        [&self.gate, &self.other].map(|listener| listener.local_addr().expect("an address").port())
    }

    fn hosts(&self) -> Sandbox {
        let gate = self.ports()[0];
        let network = Network::Hosts(Hosts::by(Port { gate, ..Port::default() }));
        Sandbox { write: vec![self.path("inside")], network, ..Sandbox::default() }
    }

    fn spec(&self, sandbox: Option<Sandbox>) -> ProcessSpec {
        let [gate, other] = self.ports().map(|port| port.to_string());
        let [inside, outside] = ["inside", "outside"].map(|name| self.path(name).display().to_string());
        let mut arguments = vec![inside, outside, gate, other, self.name.clone()];
        arguments.extend(sandbox.is_some().then(|| "held".to_owned()));
        let mut spec = ProcessSpec::new(reach().display().to_string(), arguments);
        spec.sandbox = sandbox;
        spec
    }
}

struct Seen {
    attempts: BTreeMap<String, String>,
    refused: Vec<Refused>,
}

impl Seen {
    fn check(&self, allowed: &[&str]) {
        let is_allowed = |name: &str| allowed.contains(&name);
        let faults: Vec<_> = self
            .attempts
            .iter()
            .filter(|(name, outcome)| is_allowed(name) != (outcome.as_str() == "done"))
            .collect();
        assert!(faults.is_empty(), "{faults:?}");
        assert!(self.attempts.len() >= 47, "{}", self.attempts.len());
    }

    fn names(&self, what: &str) -> bool {
        self.refused.iter().any(|refused| refused.what == what)
    }
}

async fn attempts(spec: ProcessSpec) -> Seen {
    let result = result_of(spec).await;
    assert_eq!(result.exit_code, Some(0), "{}", result.stderr);
    let lines = result.stdout.lines().filter_map(|line| line.split_once(' '));
    let attempts = lines.map(|(name, outcome)| (name.to_owned(), outcome.to_owned())).collect();
    Seen { attempts, refused: result.sandbox.map(|report| report.refused).unwrap_or_default() }
}

/// Attempts that succeed in every sandbox that limits Unix sockets.
const UNIX: [&str; 4] = ["socket-inside", "socket-inside-by-cwd", "own-pair", "own-unix-server"];
const GATE: [&str; 4] = ["gate", "gate-blocking", "gate-by-any", "gate-mapped"];
const SERVERS: [&str; 5] =
    ["own-server", "own-server-for-all", "own-server-six", "own-server-unbound", "closed-port"];
/// Needs a privilege, or is not on every machine: without a sandbox it proves nothing.
const ELSEWHERE: [&str; 11] = [
    "source-route",
    "source-route-six",
    "raw",
    "packet",
    "sctp",
    "vsock",
    "ping",
    "io-uring",
    "multipath",
    "server-on-an-interface",
    "own-server-unbound",
];

fn all(lists: &[&[&'static str]]) -> Vec<&'static str> {
    lists.concat()
}

#[tokio::test]
async fn without_a_sandbox_the_program_reaches_what_it_likes() {
    let ground = Ground::new("control");
    let seen = attempts(ground.spec(None)).await;
    for (name, outcome) in &seen.attempts {
        let is_known = ELSEWHERE.contains(&name.as_str()) || name.starts_with("own-server");
        // Nobody listens there.
        let is_there = outcome == "done" || (name == "name-server" || name.starts_with("fast-open"));
        assert!(is_known || is_there, "{name}: {outcome}");
    }
    assert_eq!(seen.attempts["local-server"], "done");
}

#[tokio::test]
async fn with_hosts_the_gate_and_its_own_servers_alone_are_reached() {
    let ground = Ground::new("hosts");
    let seen = attempts(ground.spec(Some(ground.hosts()))).await;
    seen.check(&all(&[&UNIX, &GATE, &SERVERS]));
    let other = format!("127.0.0.1:{}", ground.ports()[1]);
    let socket = ground.path("outside").canonicalize().expect("a path").join("socket");
    for what in
        [&other, "192.0.2.1:443", "169.254.169.254:80", "[2001:db8::]:443", &socket.display().to_string()]
    {
        assert!(seen.names(what), "{what}: {:?}", seen.refused);
    }
    assert!(
        seen.refused
            .iter()
            .all(|refused| refused.program.as_ref().is_some_and(|name| name.starts_with("reach")))
    );
}

#[tokio::test]
async fn without_a_network_only_sockets_of_the_sandbox_are_reached() {
    let ground = Ground::new("none");
    let sandbox = Sandbox { network: Network::None, ..ground.hosts() };
    attempts(ground.spec(Some(sandbox))).await.check(&UNIX);
}

#[tokio::test]
async fn with_ports_there_is_no_udp_and_no_socket_of_another() {
    let ground = Ground::new("ports");
    let [gate, _] = ground.ports();
    let sandbox = Sandbox { network: Network::Ports(vec![gate]), ..ground.hosts() };
    let seen = attempts(ground.spec(Some(sandbox))).await;
    for name in all(&[&UNIX, &GATE]) {
        assert_eq!(seen.attempts[name], "done", "{name}");
    }
    for name in ["local-server", "udp", "udp-six", "ping", "socket", "socket-by-link", "abstract", "datagram"]
    {
        assert!(seen.attempts[name].starts_with("refused"), "{name}");
    }
}

#[tokio::test]
async fn a_socket_that_is_named_is_reached_and_others_no_more() {
    let ground = Ground::new("named");
    for network in [Network::None, ground.hosts().network] {
        let sockets = Some(vec![ground.path("outside").join("socket")]);
        let sandbox = Sandbox { sockets, network, ..ground.hosts() };
        let seen = attempts(ground.spec(Some(sandbox))).await;
        for (name, outcome) in
            [("socket", "done"), ("socket-by-link", "done"), ("socket-inside", "refused 13")]
        {
            assert_eq!(seen.attempts[name], outcome, "{name}");
        }
    }
    let sockets = Some(vec![ground.path("nothing")]);
    let outcome = outcome_of(ground.spec(Some(Sandbox { sockets, ..ground.hosts() }))).await;
    let error = outcome.error.as_ref().expect("an error");
    assert!(error.message().starts_with("sandbox.sockets[0]: "), "{error}");
}

#[tokio::test]
async fn root_reaches_no_socket_that_is_closed_to_it_without_its_capabilities() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let ground = Ground::new("modes");
    let closed = ground.path("inside/closed");
    std::fs::create_dir(&closed).expect("a folder");
    let path = closed.join("socket");
    let _server = UnixListener::bind(&path).expect("a socket");
    for (path, mode) in [(&path, 0o600), (&closed, 0o700)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
        std::os::unix::fs::chown(path, Some(65534), Some(65534)).expect("an owner");
    }
    let dial = |sandbox| {
        let mut spec = shell(&format!("exec {} dial {}", reach().display(), path.display()));
        spec.sandbox = sandbox;
        result_of(spec)
    };
    assert_eq!(dial(None).await.stdout, "dial done\n");
    let networks = [Network::All, Network::None, ground.hosts().network];
    for network in networks {
        let sandbox = Sandbox { network, ..ground.hosts() };
        assert_eq!(dial(Some(sandbox.clone())).await.stdout, "dial refused 13\n", "{:?}", sandbox.network);
    }
}

#[tokio::test]
async fn a_path_leads_through_a_descriptor_of_the_program_and_through_none_of_the_host() {
    let ground = Ground::new("descriptors");
    let held = std::fs::File::open(ground.path("inside")).expect("a folder");
    let of_host = std::os::fd::AsRawFd::as_raw_fd(&held);
    let inside = ground.path("inside");
    for (path, outcome) in [
        ("/proc/self/fd/7/socket".to_owned(), "done"),
        ("/dev/fd/7/socket".to_owned(), "refused 13"),
        (format!("/dev/fd/{of_host}/socket"), "refused 13"),
        ("/proc/thread-self/fd/7/socket".to_owned(), "refused 13"),
        (format!("/proc/../proc/self/fd/{of_host}/socket"), "refused 13"),
    ] {
        let mut spec = shell(&format!("exec 7<{}; exec {} dial {path}", inside.display(), reach().display()));
        spec.sandbox = Some(Sandbox { network: Network::None, ..ground.hosts() });
        assert_eq!(result_of(spec).await.stdout, format!("dial {outcome}\n"), "{path}");
    }
}

#[tokio::test]
async fn a_path_that_begins_at_a_detached_mount_leads_to_no_socket_outside() {
    let ground = Ground::new("detached");
    let inside = ground.path("inside").canonicalize().expect("a path");
    // The outside has the same names below it.
    let twin = ground.path("outside").join(inside.strip_prefix("/").expect("a path"));
    std::fs::create_dir_all(&twin).expect("a folder");
    let _server = UnixListener::bind(twin.join("socket")).expect("a socket");
    let detached = |sandbox| {
        let (outside, path) = (ground.path("outside"), inside.join("socket"));
        let mut spec =
            shell(&format!("exec {} detached {} {}", reach().display(), outside.display(), path.display()));
        spec.sandbox = sandbox;
        result_of(spec)
    };
    let control = detached(None).await.stdout;
    // A machine may forbid namespaces.
    if control.contains("open-tree done") {
        assert!(control.contains("detached done"), "{control}");
        let sandbox = Sandbox { network: Network::None, ..ground.hosts() };
        let result = detached(Some(sandbox)).await;
        assert!(result.stdout.contains("open-tree done"), "{}", result.stdout);
        assert!(result.stdout.contains("detached refused 13"), "{}", result.stdout);
    }
}

/// Names of this process's threads that wait in connect(2).
fn connecting() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("threads").filter_map(Result::ok);
    let is_connecting = |task: &PathBuf| {
        let call = std::fs::read_to_string(task.join("syscall")).unwrap_or_default();
        call.split(' ').next() == Some(&nix::libc::SYS_connect.to_string())
    };
    let tasks = tasks.map(|task| task.path()).filter(is_connecting);
    tasks.filter_map(|task| std::fs::read_to_string(task.join("comm")).ok()).collect()
}

#[tokio::test]
async fn connections_that_hang_take_no_thread_that_others_need() {
    let ground = Ground::new("hang");
    let path = ground.path("inside/own");
    let mut spec = shell(&format!("exec {} hang {} 20", reach().display(), path.display()));
    spec.sandbox = Some(Sandbox { network: Network::None, ..ground.hosts() });
    let process = spawn(spec);
    // As many as are answered at once.
    let waiting = loop {
        let waiting = connecting();
        if waiting.len() >= 8 {
            break waiting;
        }
        tokio::task::yield_now().await;
    };
    assert!(waiting.iter().all(|name| name == "sheepdog-fence\n"), "{waiting:?}");
    process.kill(9);
    process.outcome().await;
    // Their servers ended with the program.
    while connecting().len() >= 8 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_address_that_changes_while_it_is_used_leads_nowhere_else() {
    let ground = Ground::new("race");
    let [gate, other] = ground.ports();
    for listener in [&ground.gate, &ground.other] {
        listener.set_nonblocking(true).expect("not waiting");
    }
    let accepted = |listener: &TcpListener| std::iter::from_fn(|| listener.accept().ok()).count();
    let (mut to_gate, mut to_other) = (0, 0);
    // Fewer at once than a queue of connections holds.
    for _ in 0..20 {
        let arguments = ["race".to_owned(), gate.to_string(), other.to_string(), "100".to_owned()];
        let mut spec = ProcessSpec::new(reach().display().to_string(), arguments);
        spec.sandbox = Some(ground.hosts());
        assert_eq!(result_of(spec).await.exit_code, Some(0));
        (to_gate, to_other) = (to_gate + accepted(&ground.gate), to_other + accepted(&ground.other));
    }
    assert_eq!(to_other, 0);
    assert!(to_gate > 0, "no connection was made");
}

#[tokio::test]
async fn nobody_in_the_tree_takes_the_port_of_a_listed_server() {
    let ground = Ground::new("take");
    let [gate, _] = ground.ports();
    // The servers are not there.
    let free: Vec<TcpListener> = (0..2).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    let [listed, seen] = [0, 1].map(|at: usize| free[at].local_addr().expect("an address").port());
    drop(free);
    let take = |port: u16, sandbox: Option<Sandbox>| {
        let mut spec = shell(&format!("exec {} take {port}", reach().display()));
        spec.sandbox = sandbox;
        result_of(spec)
    };
    let control = take(listed, None).await.stdout;
    for name in ["take", "take-another", "take-any", "take-six", "take-mapped-shared"] {
        assert!(control.lines().any(|line| line == format!("{name} done")), "{control}");
    }
    let proxy = Port { gate, listed: vec![listed], redirects: vec![(seen, gate)] };
    let network = Network::Hosts(Hosts::by(proxy));
    let sandbox = Sandbox { network, ..ground.hosts() };
    for port in [listed, seen] {
        let result = take(port, Some(sandbox.clone())).await;
        // EADDRINUSE
        let is_refused = |line: &&str| line.ends_with(" refused 98");
        let refused = result.stdout.lines().filter(is_refused).count();
        assert_eq!((refused, result.stdout.lines().count()), (12, 12), "{}", result.stdout);
        let list = result.sandbox.expect("a report").refused;
        let what = format!("127.0.0.1:{port}: a server of the program's own on a listed port");
        let told: Vec<_> = list.iter().filter(|refused| refused.what == what).collect();
        assert_eq!((told.len(), told[0].count), (1, 8), "{list:?}");
    }
    let other = take(ground.ports()[1] ^ 1, Some(sandbox)).await.stdout;
    assert!(other.contains("take-six done") || other.contains("take done"), "{other}");
}

#[tokio::test]
async fn with_nobody_to_decide_no_connection_is_made() {
    let ground = Ground::new("alone");
    let [gate, _] = ground.ports();
    let (go, out) = (ground.path("inside/go"), ground.path("inside/out"));
    let script = format!(
        "mkfifo {0} && (cat {0} | {1} wait {gate} > {2} 2>&1 &) && echo started",
        go.display(),
        reach().display(),
        out.display()
    );
    let mut spec = shell(&script);
    (spec.sandbox, spec.strays) = (Some(ground.hosts()), Strays::Keep);
    // The run is over, and its fence with it; the program lives.
    assert_eq!(result_of(spec).await.stdout, "started\n");
    let told = tokio::task::spawn_blocking(move || std::fs::write(go, "\n"));
    told.await.expect("a thread").expect("the program waits");
    let said = async {
        loop {
            let text = std::fs::read_to_string(&out).unwrap_or_default();
            if let Some((_, line)) = text.split_once("ready\n").filter(|(_, line)| line.ends_with('\n')) {
                return line.to_owned();
            }
            tokio::task::yield_now().await;
        }
    };
    // ENOSYS
    assert_eq!(said.await, "connect refused 38\n");
}

#[tokio::test]
async fn in_a_namespace_it_is_the_same() {
    let ground = Ground::new("strict");
    let mut spec = ground.spec(Some(ground.hosts()));
    spec.containment = Containment::Strict;
    let outcome = outcome_of(spec).await;
    // A machine may forbid namespaces.
    if let Some(result) = &outcome.result {
        for line in [
            "gate done",
            "own-server done",
            "socket-inside done",
            "socket-inside-by-cwd done",
            "address refused 13",
            "socket refused 13",
            "socket-by-root refused 13",
        ] {
            assert!(result.stdout.lines().any(|seen| seen == line), "{line}: {}", result.stdout);
        }
    }
}

#[tokio::test]
async fn with_a_listed_port_name_servers_are_asked_by_tcp() {
    let options = |ports: Vec<u16>, own: Option<&str>| {
        let mut spec = shell("echo $RES_OPTIONS");
        spec.sandbox = Some(Sandbox { network: Network::Ports(ports), ..Sandbox::default() });
        spec.environment.changes = vec![("RES_OPTIONS".into(), own.map(str::to_owned))];
        result_of(spec)
    };
    assert_eq!(options(vec![], None).await.stdout, "\n");
    assert_eq!(options(vec![443], None).await.stdout, "use-vc\n");
    assert_eq!(options(vec![53], Some("debug")).await.stdout, "debug\n");
}

#[tokio::test]
async fn the_gate_tells_the_program_where_it_is() {
    let ground = Ground::new("environment");
    let mut spec = shell("echo $GATE");
    spec.sandbox = Some(ground.hosts());
    assert_eq!(result_of(spec).await.stdout, format!("{}\n", ground.ports()[0]));
}

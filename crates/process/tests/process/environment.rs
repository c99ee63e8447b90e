//! Machines that refuse something: a program of its own is the host there, made by filters, namespaces and limits. What happens, what
//! the messages say and what `sandbox_support` promises must agree.
#![cfg(target_os = "linux")]

use super::{outcome_of, shell};
use ground::signal::Signal;
use nix::libc;
use process::{Containment, Network, ProcessSpec, Sandbox, StopReason, sandbox_support, spawn};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longer than any of these waits takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// This test program, to run one of the hosts below.
fn host_command(host: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a path"));
    command.args([
        "--exact",
        &format!("environment::{host}"),
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ]);
    command
}

/// A line of the host, for its test.
fn tell(value: &Value) {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "\n@{value}").and_then(|()| stdout.flush()).expect("told");
}

fn told(text: &str) -> Vec<Value> {
    let lines = text.lines().filter_map(|line| line.strip_prefix('@'));
    lines.map(|line| ground::json::read(line.as_bytes()).expect("JSON")).collect()
}

fn told_by(mut command: Command) -> Vec<Value> {
    let output = command.output().expect("a host");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = told(&text);
    assert!(!lines.is_empty(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    lines
}

/// Has these calls answered with an errno from now on, in this thread and in what it starts: number, first argument if it counts, errno.
fn refuse(number: libc::c_long, argument: Option<u32>, errno: i32) {
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let load = |at| step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, at);
    let is = |value, jf| step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, jf, value);
    let answer = |value| step(libc::BPF_RET | libc::BPF_K, 0, 0, value);
    let refused = answer(libc::SECCOMP_RET_ERRNO | errno as u32);
    let mut filter = vec![load(0), is(number as u32, if argument.is_some() { 3 } else { 1 })];
    if let Some(argument) = argument {
        filter.extend([load(16), is(argument, 1)]);
    }
    filter.extend([refused, answer(libc::SECCOMP_RET_ALLOW)]);
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: no pointers, and then one to a program that lives for the call.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
}

/// A call that a machine may refuse: its name in messages, its number, and its first argument if that counts.
const CALLS: [(&str, libc::c_long, Option<u32>); 15] = [
    ("openat2", libc::SYS_openat2, None),
    ("landlock_create_ruleset", libc::SYS_landlock_create_ruleset, None),
    ("landlock_add_rule", libc::SYS_landlock_add_rule, None),
    ("landlock_restrict_self", libc::SYS_landlock_restrict_self, None),
    ("prctl(PR_SET_NO_NEW_PRIVS)", libc::SYS_prctl, Some(libc::PR_SET_NO_NEW_PRIVS as u32)),
    ("prctl(PR_SET_CHILD_SUBREAPER)", libc::SYS_prctl, Some(libc::PR_SET_CHILD_SUBREAPER as u32)),
    ("prctl(PR_SET_PDEATHSIG)", libc::SYS_prctl, Some(libc::PR_SET_PDEATHSIG as u32)),
    ("prctl(PR_SET_SECCOMP)", libc::SYS_prctl, Some(libc::PR_SET_SECCOMP as u32)),
    ("seccomp", libc::SYS_seccomp, None),
    ("capset", libc::SYS_capset, None),
    ("pidfd_open", libc::SYS_pidfd_open, None),
    ("pidfd_getfd", libc::SYS_pidfd_getfd, None),
    ("process_vm_readv", libc::SYS_process_vm_readv, None),
    ("memfd_create", libc::SYS_memfd_create, None),
    ("signalfd4", libc::SYS_signalfd4, None),
];

/// Sandboxes, by the word that says that each holds.
fn sandboxes() -> [(&'static str, Sandbox); 4] {
    let sandbox = |read: Option<&str>, network| Sandbox {
        write: vec![".".into()],
        read: read.map(|path| vec![path.into()]),
        network,
        ..Sandbox::default()
    };
    [
        ("writes", sandbox(None, Network::All)),
        ("reads", sandbox(Some("/"), Network::All)),
        ("network", sandbox(None, Network::None)),
        ("ports", sandbox(None, Network::Ports(vec![443]))),
    ]
}

/// Not a test by itself.
#[tokio::test]
#[ignore = "run by another test, in a process of its own"]
async fn as_filtered_host() {
    let refused = std::env::var("REFUSED").unwrap_or_default();
    if let Some((name, errno)) = refused.split_once(' ') {
        let (_, number, argument) = CALLS.into_iter().find(|(known, ..)| *known == name).expect("a call");
        refuse(number, argument, errno.parse().expect("a number"));
    }
    // Blocking calls run on threads that this one starts, which inherit its filter.
    let begun = Instant::now();
    let outcome = outcome_of(shell("setsid sleep 60 & echo $!; echo hi")).await;
    let result = outcome.result.as_ref().expect("a run");
    let daemon = super::pids_in(&result.stdout);
    // SAFETY: no pointers, and no signal.
    let is_alive = unsafe { libc::kill(daemon[0], 0) } == 0;
    let level = format!("{:?}", result.containment);
    let seconds = begun.elapsed().as_secs_f64();
    tell(
        &json!({ "what": "plain", "level": level, "daemon": is_alive, "left": result.strays_left, "s": seconds }),
    );
    let support = serde_json::to_value(sandbox_support()).expect("JSON");
    let folder = tempfile::tempdir().expect("a folder");
    for (word, sandbox) in sandboxes() {
        let mut spec = shell("echo made > file");
        spec.cwd = Some(folder.path().canonicalize().expect("a path"));
        spec.sandbox = Some(sandbox);
        let outcome = outcome_of(spec).await;
        let error = outcome.error.as_ref();
        tell(&json!({
            "what": word,
            "promised": support["holds"].as_array().expect("a list").contains(&word.into()),
            "ran": outcome.result.as_ref().is_some_and(|result| result.exit_code == Some(0)),
            "code": error.map(|error| error.code().as_str()),
            "message": error.map(|error| error.message()),
            "errno": error.map(|error| error.facts().get("errno")),
            "problem": support["problem"],
        }));
    }
}

#[test]
fn what_a_machine_promises_is_what_happens_whatever_call_it_refuses() {
    let hosts = CALLS.into_iter().flat_map(|(name, ..)| [(name, libc::EPERM), (name, libc::ENOSYS)]);
    for (name, errno) in std::iter::once(("", 0)).chain(hosts) {
        let mut command = host_command("as_filtered_host");
        command.env("REFUSED", format!("{name} {errno}"));
        if name.is_empty() {
            command.env_remove("REFUSED");
        }
        let case = format!("{name} refused with {errno}");
        for line in told_by(command) {
            let what = line["what"].as_str().expect("a word");
            if what == "plain" {
                let is_guarded = line["level"] != "Group";
                assert!(!is_guarded || line["daemon"] == false, "{case}: {line}");
                assert!(line["s"].as_f64().is_some_and(|seconds| seconds < 8.0), "{case}: {line}");
                continue;
            }
            assert_eq!(line["ran"], line["promised"], "{case}: {line}");
            if line["ran"] == true {
                assert!(line["code"].is_null(), "{case}: {line}");
                continue;
            }
            assert_eq!(
                (&line["code"], &line["errno"]),
                (&"SANDBOX_UNAVAILABLE".into(), &errno.into()),
                "{case}: {line}"
            );
            for text in [&line["message"], &line["problem"]] {
                assert!(text.as_str().is_some_and(|text| text.contains(name)), "{case}: {line}");
            }
        }
    }
}

/// Not a test by itself. Its /proc is that of the outer namespace.
#[tokio::test]
#[ignore = "run by another test, in a process of its own"]
async fn as_nested_host() {
    let outer = fs::read_link("/proc/self").expect("a number");
    let outer: u32 = outer.to_str().and_then(|outer| outer.parse().ok()).expect("a number");
    assert_ne!(outer, std::process::id(), "/proc is this namespace's own");
    // The numbers in this namespace are made those that the outer one is about to give.
    let _ = fs::write("/proc/sys/kernel/ns_last_pid", (outer + 300).to_string());
    let mut sleepers: Vec<Child> =
        (0..250).map(|_| Command::new("sleep").arg("300").spawn().expect("a child")).collect();
    let first = sleepers[0].id();
    for _ in 0..30 {
        let begun = Instant::now();
        let outcome = outcome_of(shell("setsid sleep 60 & echo $!; echo hi")).await;
        let result = outcome.result.as_ref().expect("a result");
        let daemon = super::pids_in(&result.stdout)[0];
        // SAFETY: no pointers, and no signal.
        assert_ne!(unsafe { libc::kill(daemon, 0) }, 0, "the daemon lives: {result:?}");
        assert_eq!((result.strays_killed, result.strays_left), (1, 0), "{result:?}");
        assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    }
    let mut spec = shell("setsid sleep 60 & sleep 50");
    spec.timeout = Some(Duration::from_millis(300));
    let begun = Instant::now();
    let outcome = outcome_of(spec).await;
    assert_eq!(outcome.error.as_ref().map(|error| error.code().as_str()), Some("PROCESS_TIMED_OUT"));
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    // Nobody is listed by the numbers of others.
    let trees = process::census().await.expect("a list");
    let killed = sleepers.iter_mut().map(Child::try_wait).filter(|state| !matches!(state, Ok(None))).count();
    let level = format!("{:?}", outcome.result.as_ref().expect("a result").containment);
    tell(&json!({ "killed": killed, "trees": trees.len(), "level": level, "first": first, "outer": outer }));
    for mut child in sleepers {
        let _ = child.kill();
        let _ = child.wait();
    }
}

#[test]
fn where_proc_is_of_another_namespace_no_other_process_is_hit_and_the_level_holds() {
    let is_root = nix::unistd::getuid().is_root();
    let names: &[&str] = if is_root { &[] } else { &["--user", "--map-root-user"] };
    let can = Command::new("unshare").args(names).args(["--pid", "--fork", "true"]).output();
    if !can.is_ok_and(|output| output.status.success()) {
        println!("not tested: PID namespaces are forbidden here");
        return;
    }
    let host = host_command("as_nested_host");
    let mut command = Command::new("unshare");
    command
        .args(names)
        .args(["--pid", "--fork", "--kill-child"])
        .arg(host.get_program())
        .args(host.get_args());
    let lines = told_by(command);
    let line = lines.last().expect("a line");
    assert_eq!((&line["killed"], &line["trees"]), (&0.into(), &0.into()), "{line}");
    assert!(line["level"].as_str().is_some_and(|level| level.starts_with("Guard")), "{line}");
}

/// Not a test by itself: runs a program, and ends as it is told.
#[tokio::test]
#[ignore = "run by another test, in a process of its own"]
async fn as_ending_host() {
    let script = std::env::var("SCRIPT").expect("a script");
    let containment = if std::env::var("STRICT").is_ok() { Containment::Strict } else { Containment::Auto };
    let grace = std::env::var("GRACE_MS").ok().and_then(|grace| grace.parse().ok()).unwrap_or(30_000);
    let kill_grace = Duration::from_millis(grace);
    let process = spawn(ProcessSpec { containment, kill_grace, ..shell(&script) });
    let mut chunks = process.chunks();
    let pid = process.started().await.map_err(|error| tell(&json!({ "error": error.to_string() }))).ok();
    let _ = chunks.next().await;
    tell(&json!({ "pid": pid }));
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line);
    if line.trim() == "exit" {
        std::process::exit(3);
    }
    process.outcome().await;
}

/// A host whose program has begun, and the program's pid. `None`: this machine has no such level.
fn ending_host(script: &str, variables: &[(&str, &str)]) -> Option<(Child, i32)> {
    let mut command = host_command("as_ending_host");
    command.env("SCRIPT", script).envs(variables.iter().copied());
    let mut host = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a host");
    let lines = BufReader::new(host.stdout.take().expect("a pipe")).lines();
    let line = lines.map_while(Result::ok).find(|line| line.starts_with('@')).expect("a line");
    let pid = told(&line)[0]["pid"].as_i64();
    if pid.is_none() {
        let _ = host.kill();
        let _ = host.wait();
    }
    Some((host, i32::try_from(pid?).expect("a pid")))
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn end(host: &mut Child, how: Option<i32>) {
    match how {
        // SAFETY: no pointers; the host is a child that has not been waited for.
        Some(signal) => assert_eq!(unsafe { libc::kill(host.id().cast_signed(), signal) }, 0),
        None => host.stdin.take().expect("a pipe").write_all(b"exit\n").expect("told"),
    }
    host.wait().expect("an end");
}

#[test]
fn a_host_that_ends_in_order_gives_its_program_time_and_a_killed_one_does_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let ends = [None, Some(libc::SIGTERM), Some(libc::SIGINT), Some(libc::SIGHUP), Some(libc::SIGKILL)];
    for (number, how) in ends.into_iter().enumerate() {
        for level in [&[][..], &[("STRICT", "1")]] {
            let file = folder.path().join(format!("{number}-{}", level.len()));
            let script = format!(
                "trap 'head -c 300000 /dev/zero; echo bye > {}; exit' TERM; echo; while :; do sleep 0.05; done",
                file.display()
            );
            let Some((mut host, pid)) = ending_host(&script, level) else { continue };
            end(&mut host, how);
            until("the program lives", || !super::is_alive(pid));
            assert_eq!(file.exists(), how != Some(libc::SIGKILL), "{how:?} {level:?}");
        }
    }
}

#[test]
fn a_program_that_takes_no_signal_is_killed_after_the_grace_and_its_daemons_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("daemon");
    let script = format!(
        "trap '' TERM; setsid sh -c 'echo $$ > {}; sleep 300' & sleep 0.3; echo; sleep 300 & wait; sleep 300",
        file.display()
    );
    let (mut host, pid) = ending_host(&script, &[("GRACE_MS", "600")]).expect("a host");
    let begun = Instant::now();
    end(&mut host, Some(libc::SIGTERM));
    until("the program lives", || !super::is_alive(pid));
    assert!(begun.elapsed() >= Duration::from_millis(550), "{:?}", begun.elapsed());
    let daemon = super::pids_in(&fs::read_to_string(file).expect("a pid"))[0];
    until("the daemon lives", || !super::is_alive(daemon));
}

#[test]
fn without_a_grace_the_end_of_the_host_kills_at_once() {
    let script = "trap '' TERM; echo; while :; do sleep 0.05; done";
    let (mut host, pid) = ending_host(script, &[("GRACE_MS", "0")]).expect("a host");
    end(&mut host, Some(libc::SIGTERM));
    until("the program lives", || !super::is_alive(pid));
}

#[tokio::test]
async fn a_program_that_is_stopped_can_still_clean_up() {
    for containment in [Containment::Auto, Containment::Group] {
        let script = "trap 'echo bye; exit 0' TERM; echo ready; kill -STOP $$; while :; do sleep 0.05; done";
        let process = spawn(ProcessSpec { containment, kill_grace: PATIENCE, ..shell(script) });
        let pid = process.started().await.expect("started");
        until("it runs", || {
            fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") T "))
        });
        process.stop(StopReason::Aborted);
        let outcome = process.outcome().await;
        let result = outcome.result.as_ref().expect("a result");
        assert_eq!(result.stdout, "ready\nbye\n", "{containment:?}");
        // A signal that stops is not undone.
        assert!(Signal::Stop.stops() && !Signal::Term.stops());
    }
}

/// Not a test by itself.
#[tokio::test]
#[ignore = "run by another test, in a process of its own"]
async fn as_stopped_host() {
    for containment in [Containment::Auto, Containment::Group] {
        let mut spec = ProcessSpec { containment, ..shell("sleep 0.3; echo x") };
        spec.timeout = Some(Duration::from_millis(2000));
        let process = spawn(spec);
        process.started().await.expect("started");
        tell(&json!("started"));
        let outcome = process.outcome().await;
        let error = outcome.error.as_ref().map(|error| error.code().as_str());
        let stdout = outcome.result.as_ref().map(|result| result.stdout.as_str());
        tell(&json!({ "error": error, "stdout": stdout }));
    }
}

#[test]
fn a_program_that_ended_in_time_is_not_told_as_timed_out() {
    let mut host = host_command("as_stopped_host").stdout(Stdio::piped()).spawn().expect("a host");
    let lines = BufReader::new(host.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let mut ended = 0;
    for line in lines.filter(|line| line.starts_with('@')) {
        let line = &told(&line)[0];
        if *line == json!("started") {
            let pid = host.id().cast_signed();
            // SAFETY: no pointers; the host is a child that has not been waited for.
            unsafe { libc::kill(pid, libc::SIGSTOP) };
            std::thread::sleep(Duration::from_millis(3000));
            // SAFETY: as above.
            unsafe { libc::kill(pid, libc::SIGCONT) };
            continue;
        }
        assert_eq!(*line, json!({ "error": null, "stdout": "x\n" }));
        ended += 1;
    }
    assert_eq!(ended, 2);
    assert!(host.wait().expect("an end").success());
}

/// Not a test by itself: some limits are those of a whole process.
#[tokio::test]
#[ignore = "run by another test, in a process of its own"]
async fn as_limited_host() {
    // As Node has it: a write beyond the limit is an error and no end.
    // SAFETY: SIG_IGN is a valid action.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let outcome = outcome_of(shell("echo hi")).await;
    let result = outcome.result.as_ref().expect("a result");
    let mut spec = shell("true");
    spec.sandbox = Some(Sandbox { write: vec!["/tmp".into()], ..Sandbox::default() });
    let outcome = outcome_of(spec).await;
    let message = outcome.error.as_ref().map(|error| error.message().to_owned());
    let problem = sandbox_support().problem;
    tell(&json!({ "level": format!("{:?}", result.containment), "message": message, "problem": problem }));
}

#[test]
fn a_limit_that_leaves_no_guard_is_named() {
    let host = host_command("as_limited_host");
    let mut command = Command::new("prlimit");
    command.arg("--fsize=8192").arg(host.get_program()).args(host.get_args());
    let line = &told_by(command)[0];
    assert_eq!(line["level"], "Group");
    for text in [&line["message"], &line["problem"]] {
        let text = text.as_str().expect("a message");
        assert!(text.contains("write memfd:sheepdog-guard: File too large"), "{text}");
    }
}

/// Not a test by itself: its signals are ignored as those of Node are.
#[tokio::test]
#[ignore = "run by another test, in a process of its own"]
async fn as_ignoring_host() {
    // SAFETY: SIG_IGN is a valid action of each of them.
    unsafe {
        for signal in [libc::SIGXFSZ, libc::SIGPIPE, libc::SIGUSR1, libc::SIGTERM] {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
    for containment in [Containment::Auto, Containment::Group] {
        for cwd in [None, Some("/".into())] {
            let spec = ProcessSpec { containment, cwd, ..shell("grep -E 'Sig(Ign|Blk)' /proc/self/status") };
            let outcome = outcome_of(spec).await;
            tell(&json!(outcome.result.as_ref().expect("a result").stdout));
        }
    }
}

#[test]
fn a_program_has_the_default_signals_at_each_level() {
    let lines = told_by(host_command("as_ignoring_host"));
    assert_eq!(lines.len(), 4);
    for line in lines {
        let text = line.as_str().expect("text");
        let masks = text.split_whitespace().filter(|word| word.len() == 16);
        assert!(masks.eq(["0000000000000000"; 2]), "{text}");
    }
}

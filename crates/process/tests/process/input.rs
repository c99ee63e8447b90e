use super::{rest_of, result_of, shell};
use process::{Input, ProcessSpec, spawn};

#[tokio::test]
async fn input_is_written_whole_and_closed() {
    let text = "0123456789abcdef".repeat(500_000);
    let mut spec = shell("wc -c");
    spec.input = Input::Bytes(text.into());
    assert_eq!(result_of(spec).await.stdout.trim(), "8000000");
}

#[tokio::test]
async fn a_program_that_does_not_read_its_input_is_no_error() {
    let mut spec = shell("exit 3");
    spec.input = Input::Bytes(vec![b'x'; 8 << 20].into());
    assert_eq!(result_of(spec).await.exit_code, Some(3));
}

#[tokio::test]
async fn a_written_pipe_is_read_as_it_comes_and_closed_by_its_writer() {
    let mut spec = ProcessSpec::new("cat", [""; 0]);
    spec.input = Input::Pipe;
    let process = spawn(spec);
    let mut stdin = process.take_stdin().expect("a writer");
    assert!(process.take_stdin().is_none());
    let mut chunks = process.chunks();
    stdin.write("ping".into()).await.expect("written");
    let (_, echoed) = chunks.next().await.expect("an echo");
    assert_eq!(&echoed[..], b"ping");
    drop(stdin);
    assert_eq!(rest_of(&mut chunks).await, ["", ""]);
    assert_eq!(process.outcome().await.result.as_ref().expect("a result").stdout, "ping");
}

#[tokio::test]
async fn a_chunk_is_delivered_when_the_program_has_room_for_it_and_no_sooner() {
    let mut spec = shell("read go < \"$GATE\"; wc -c");
    let folder = tempfile::tempdir().expect("a folder");
    let gate = folder.path().join("gate");
    assert!(std::process::Command::new("mkfifo").arg(&gate).status().expect("mkfifo").success());
    spec.environment.changes = vec![("GATE".into(), Some(gate.to_string_lossy().into_owned()))];
    spec.input = Input::Pipe;
    let process = spawn(spec);
    let stdin = process.take_stdin().expect("a writer");
    // More than any pipe holds.
    let much = ground::task::spawn({
        let stdin = stdin.clone();
        async move { stdin.deliver(vec![b'x'; 1 << 20].into()).await }
    });
    let early = tokio::time::timeout(std::time::Duration::from_millis(100), async {
        while !much.is_finished() {
            tokio::task::yield_now().await;
        }
    });
    assert!(early.await.is_err(), "nobody reads yet");
    tokio::task::spawn_blocking(move || std::fs::write(gate, "go\n"))
        .await
        .expect("a thread")
        .expect("the gate");
    assert!(much.await.expect("an answer"));
    assert!(stdin.deliver("y".into()).await);
    drop(stdin);
    assert_eq!(process.outcome().await.result.as_ref().expect("a result").stdout.trim(), "1048577");
}

#[tokio::test]
async fn who_delivers_to_a_program_that_takes_no_more_is_told() {
    let mut spec = shell("exec <&-; echo closed; sleep 60");
    spec.input = Input::Pipe;
    let process = spawn(spec);
    let mut chunks = process.chunks();
    chunks.next().await.expect("closed");
    let stdin = process.take_stdin().expect("a writer");
    // A program that another test starts at this moment holds all descriptors until it is executed.
    while stdin.deliver("x".into()).await {
        tokio::task::yield_now().await;
    }
    process.stop(process::StopReason::Killed);
    process.outcome().await;
    assert!(!stdin.deliver("x".into()).await);
}

#[tokio::test]
async fn a_chunk_that_no_program_will_take_is_let_go() {
    let mut spec = shell("exit 0");
    spec.input = Input::Pipe;
    spec.cwd = Some("/no/such/folder".into());
    let process = spawn(spec);
    let stdin = process.take_stdin().expect("a writer");
    assert!(!stdin.deliver(vec![b'x'; 1 << 20].into()).await);
}

#[tokio::test]
async fn a_file_is_the_programs_own_stdin() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("text"), "from the file\n").expect("a file");
    for containment in [process::Containment::Auto, process::Containment::Group] {
        let mut spec = shell("cat; readlink /proc/$$/fd/0");
        spec.containment = containment;
        spec.cwd = Some(folder.path().to_path_buf());
        spec.input = Input::File("text".into());
        let text = result_of(spec).await.stdout;
        assert_eq!(text, format!("from the file\n{}\n", folder.path().join("text").display()));
    }
}

#[tokio::test]
async fn a_file_that_can_not_be_read_starts_nothing() {
    for path in ["/no/such/file", "/"] {
        let mut spec = shell("exit 0");
        spec.input = Input::File(path.into());
        let outcome = spawn(spec).outcome().await;
        let error = outcome.error.as_ref().expect("an error");
        assert_eq!((error.code().as_str(), &error.facts()["file"]), ("PROCESS_INPUT_FAILED", &path.into()));
        assert!(outcome.result.is_none());
    }
}

#[tokio::test]
async fn a_failed_input_kills_before_a_part_is_taken_for_the_whole() {
    let mut spec = shell("trap '' TERM; cat; echo whole");
    spec.input = Input::Pipe;
    let process = spawn(spec);
    let stdin = process.take_stdin().expect("a writer");
    let mut chunks = process.chunks();
    assert!(stdin.deliver("part\n".into()).await);
    chunks.next().await.expect("the part");
    process.stop(process::StopReason::InputFailed);
    drop(stdin);
    let outcome = process.outcome().await;
    assert_eq!(outcome.error.as_ref().map(|error| error.code().as_str()), Some("PROCESS_INPUT_FAILED"));
    let result = outcome.result.as_ref().expect("a partial result");
    assert_eq!((result.stdout.as_str(), result.signal.as_deref()), ("part\n", Some("SIGKILL")));
}

use super::{rest_of, result_of, shell};
use sheepdog::process::{Input, ProcessSpec, spawn};

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

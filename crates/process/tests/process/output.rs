use super::{assert_within, rest_of, result_of, shell};
use process::{LineTooLong, Missed, SavePlan, Saved, Sink, StopReason, Stream, spawn};
use std::io::Read;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

#[tokio::test]
async fn six_hundred_megabytes_cost_no_more_memory_than_is_kept() {
    let mut spec = shell(&format!("echo first; yes {} | head -c 600000000; echo last", "x".repeat(99)));
    spec.max_output_bytes = 1 << 20;
    let result = result_of(spec).await;
    assert!(result.truncated);
    assert!(result.stdout_bytes > 600_000_000, "{}", result.stdout_bytes);
    assert!(result.stdout.starts_with("first\nxxx") && result.stdout.ends_with("last\n"));
    assert!(result.stdout.len() <= (1 << 20) + 64);
    let marker = result.stdout.lines().find(|line| line.starts_with("[... ")).expect("a marker");
    let left_out: u64 = marker.split(' ').nth(1).expect("a number").parse().expect("a number");
    assert_eq!(left_out + result.stdout.len() as u64 - marker.len() as u64 - 1, result.stdout_bytes);
}

#[tokio::test]
async fn both_streams_are_read_however_one_of_them_floods() {
    let script = "(head -c 50000000 /dev/zero >&2) & head -c 50000000 /dev/zero; wait";
    let result = result_of(shell(script)).await;
    assert_eq!((result.stdout_bytes, result.stderr_bytes), (50_000_000, 50_000_000));
}

#[tokio::test]
async fn a_chunk_reader_gets_what_was_kept_and_then_the_rest() {
    let process = spawn(shell("echo early; read x < /dev/null; sleep 0.2; echo late"));
    process.started().await.expect("started");
    // Wait until the first line was read and kept, without a reader.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(rest_of(&mut process.chunks()).await, ["early\nlate\n", ""]);
}

#[tokio::test]
async fn a_chunk_reader_that_comes_after_the_end_gets_what_was_kept() {
    let process = spawn(shell("echo kept"));
    process.outcome().await;
    assert_eq!(rest_of(&mut process.chunks()).await, ["kept\n", ""]);
}

#[tokio::test]
async fn a_slow_reader_slows_the_program_and_rests_the_idle_clock() {
    let mut spec = shell("head -c 3000000 /dev/zero; echo done >&2");
    spec.idle_timeout = Some(Duration::from_millis(300));
    let process = spawn(spec);
    let mut chunks = process.chunks();
    chunks.next().await.expect("a chunk");
    // Much longer than the idle limit: nothing can be read meanwhile, so silence is not the program's.
    tokio::time::sleep(Duration::from_millis(600)).await;
    let [stdout, stderr] = rest_of(&mut chunks).await;
    assert!(stdout.len() > 2_000_000 && stderr == "done\n");
    let outcome = process.outcome().await;
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
}

#[tokio::test]
async fn a_reader_that_stops_reading_does_not_keep_the_run_from_ending() {
    let process = spawn(shell("head -c 100000 /dev/zero"));
    let _chunks = process.chunks();
    let begun = Instant::now();
    let outcome = process.outcome().await;
    assert_eq!(outcome.result.as_ref().expect("a result").stdout_bytes, 100_000);
    assert_within(begun, Duration::from_secs(10));
}

#[tokio::test]
async fn a_dropped_reader_lets_the_program_print_on() {
    let process = spawn(shell("head -c 20000000 /dev/zero"));
    let mut chunks = process.chunks();
    chunks.next().await.expect("a chunk");
    drop(chunks);
    assert_eq!(process.outcome().await.result.as_ref().expect("a result").stdout_bytes, 20_000_000);
}

/// Takes longer over what it is given than the program needs to print more.
struct SlowSink;

impl Sink for SlowSink {
    fn takes(&self, _: Stream) -> bool {
        true
    }

    fn push(&mut self, _: Stream, _: &[u8]) -> Result<(), LineTooLong> {
        std::thread::sleep(Duration::from_millis(1));
        Ok(())
    }

    fn end(&mut self, _: Stream) -> Result<(), LineTooLong> {
        Ok(())
    }

    fn refuse(&mut self, _: Missed) {}

    fn poll_room(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    fn finish(&mut self) {}
}

// One thread for all, as the addon has.
#[tokio::test(flavor = "current_thread")]
async fn a_flood_keeps_the_thread_from_nobody() {
    let process = spawn(shell("head -c 300000000 /dev/zero"));
    process.subscribe(Box::new(SlowSink));
    process.started().await.expect("started");
    let mut outcome = Box::pin(process.outcome());
    let mut ticks = 0;
    // About five seconds of reading, and a clock beside it.
    while ticks < 20 {
        tokio::select! {
            _ = &mut outcome => break,
            () = tokio::time::sleep(Duration::from_millis(20)) => ticks += 1,
        }
    }
    assert_eq!(ticks, 20, "the clock stood still while output was read");
    process.stop(StopReason::Killed);
    process.outcome().await;
}

#[tokio::test]
async fn a_slow_reader_loses_nothing_of_what_strays_print() {
    let mut spec = shell("seq 1 300000 & exit 0");
    // Long enough for a stray that gets no processor for seconds, and not as long as its reader rests.
    spec.drain = Duration::from_secs(3);
    let process = spawn(spec);
    let mut chunks = process.chunks();
    let mut text = Vec::new();
    while let Some((_, bytes)) = chunks.next().await {
        if text.is_empty() {
            tokio::time::sleep(Duration::from_secs(4)).await;
        }
        text.extend_from_slice(&bytes);
    }
    let text = String::from_utf8(text).expect("text");
    assert_eq!((text.lines().count(), text.lines().last()), (300_000, Some("300000")));
}

#[tokio::test]
async fn output_is_saved_as_it_comes_and_kept_as_without_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let [stdout, stderr, both] = ["stdout", "stderr", "both"].map(|name| folder.path().join(name));
    let mut spec = shell("head -c 30000000 /dev/zero; echo; echo words >&2");
    spec.max_output_bytes = 1 << 10;
    let process = spawn(spec);
    let plan = SavePlan { stdout: Some(stdout.clone()), stderr: Some(stderr.clone()), append: false };
    let saved = process.save(plan).await.expect("saved");
    assert_eq!(saved, Saved { stdout_bytes: 30_000_001, stderr_bytes: 6 });
    assert_eq!(std::fs::metadata(&stdout).expect("a file").len(), 30_000_001);
    assert_eq!(std::fs::read(&stderr).expect("a file"), b"words\n");
    let result = process.outcome().await.result.clone().expect("a result");
    assert!(result.truncated && result.stdout_bytes == 30_000_001, "{result:?}");

    for (script, append, expected) in [
        ("echo long enough to be seen; echo error >&2", false, "long enough to be seen\nerror\n"),
        ("echo short", false, "short\n"),
        ("echo after", true, "short\nafter\n"),
    ] {
        let process = spawn(shell(script));
        let plan = SavePlan { stdout: Some(both.clone()), stderr: Some(both.clone()), append };
        process.save(plan).await.expect("saved");
        let mut lines: Vec<String> =
            std::fs::read_to_string(&both).expect("a file").lines().map(str::to_owned).collect();
        let mut wanted: Vec<&str> = expected.lines().collect();
        // Two pipes have no order among them.
        if !append {
            lines.sort_unstable();
            wanted.sort_unstable();
        }
        assert_eq!(lines, wanted);
    }
}

/// By a link, in two folders: what names it can't tell.
#[tokio::test]
async fn two_names_of_one_file_take_nothing_from_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let [one, symbolic, hard] = ["one", "symbolic", "hard"].map(|name| folder.path().join(name));
    std::fs::write(&one, "what was there before").expect("a file");
    std::os::unix::fs::symlink(&one, &symbolic).expect("a link");
    std::fs::hard_link(&one, &hard).expect("a link");
    for other in [symbolic, hard] {
        for append in [false, true] {
            let before = if append { std::fs::metadata(&one).expect("a file").len() } else { 0 };
            // By turns, so that each writes where the other has written.
            let script = "i=0; while [ $i -lt 300 ]; do echo 12345; echo abc >&2; i=$((i+1)); done";
            let process = spawn(shell(script));
            let plan = SavePlan { stdout: Some(one.clone()), stderr: Some(other.clone()), append };
            let saved = process.save(plan).await.expect("saved");
            assert_eq!(saved, Saved { stdout_bytes: 1800, stderr_bytes: 1200 });
            let text = std::fs::read_to_string(&one).expect("a file");
            let new = &text[usize::try_from(before).expect("short")..];
            let counted = |byte| new.bytes().filter(|each| *each == byte).count();
            assert_eq!((new.len(), counted(b'1'), counted(b'a')), (3000, 300, 300), "{other:?} {append}");
        }
    }
}

#[tokio::test]
async fn a_file_that_takes_nothing_fails_the_saving_and_not_the_run() {
    let folder = tempfile::tempdir().expect("a folder");
    for (file, errno, words) in [
        (folder.path().join("no/such/folder"), 2, "could not be opened: open "),
        (folder.path().to_path_buf(), 21, "could not be opened: open "),
        ("/dev/full".into(), 28, "could not be written: write /dev/full: No space left"),
    ] {
        let process = spawn(shell("head -c 3000000 /dev/zero | tr '\\0' x"));
        let error = process
            .save(SavePlan { stdout: Some(file), ..SavePlan::default() })
            .await
            .expect_err("nothing saved");
        assert_eq!(error.code().as_str(), "PROCESS_OUTPUT_FAILED");
        assert!(error.message().contains(words), "{}", error.message());
        assert_eq!(error.facts()["errno"], errno);
        let outcome = process.outcome().await;
        assert!(outcome.error.is_none(), "{:?}", outcome.error);
        assert_eq!(outcome.result.as_ref().expect("a result").stdout.len(), 3_000_000);
    }
}

#[tokio::test]
async fn a_disk_that_is_slower_than_the_program_slows_it_and_what_a_killed_program_said_is_saved() {
    // A FIFO is such a disk: opened when its reader comes, taking no more than the reader does.
    let folder = tempfile::tempdir().expect("a folder");
    let fifo = folder.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    let process = spawn(shell("head -c 5000000 /dev/zero; sleep 600"));
    let saving =
        ground::task::spawn(process.save(SavePlan { stdout: Some(fifo.clone()), ..SavePlan::default() }));
    let read = tokio::task::spawn_blocking(move || {
        let mut reader = std::fs::File::open(fifo).expect("its reader");
        reader.read_exact(&mut vec![1; 5_000_000]).map(|()| reader)
    });
    let mut reader = read.await.expect("a thread").expect("all of it");
    process.stop(StopReason::Killed);
    let outcome = process.outcome().await;
    assert_eq!(outcome.error.as_ref().expect("killed").code().as_str(), "PROCESS_KILLED");
    assert_eq!(saving.await.expect("a task").expect("saved").stdout_bytes, 5_000_000);
    assert_eq!(reader.read(&mut [0; 9]).expect("the end"), 0);
}

/// A run that printed far more than it keeps. Its reader comes during the run or after it.
async fn flooded(has_ended: bool) -> process::Process {
    let mut spec = shell("head -c 100000 /dev/zero; echo short >&2; while [ ! -e go ]; do sleep 0.02; done");
    let folder = tempfile::tempdir().expect("a folder");
    spec.cwd = Some(folder.path().to_owned());
    spec.max_output_bytes = 1000;
    let process = spawn(spec);
    process.started().await.expect("started");
    if has_ended {
        std::fs::write(folder.path().join("go"), "").expect("a file");
        process.outcome().await;
        return process;
    }
    // The program waits for a file that never comes: until its output was read, readers that come get all of it.
    loop {
        let mut chunks = process.chunks();
        tokio::select! {
            next = chunks.next() => if next.is_none() && chunks.missed().is_some() { return process },
            () = tokio::time::sleep(Duration::from_millis(20)) => {}
        }
        drop(chunks);
        process.detach_output();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_reader_that_comes_after_bytes_were_dropped_is_refused_and_the_run_goes_on() {
    for has_ended in [false, true] {
        let process = flooded(has_ended).await;
        let mut chunks = process.chunks();
        assert_eq!(chunks.next().await, None, "{has_ended}");
        let missed = Missed::Dropped { stream: Stream::Stdout, bytes: 99_000 };
        assert_eq!(chunks.missed(), Some(missed), "{has_ended}");
        // The output of the other stream is whole.
        let folder = tempfile::tempdir().expect("a folder");
        let stderr = folder.path().join("stderr");
        let plan = SavePlan { stdout: None, stderr: Some(stderr.clone()), append: false };
        let saved = process.save(plan);
        process.stop(StopReason::Killed);
        assert_eq!(saved.await.expect("saved"), Saved { stdout_bytes: 0, stderr_bytes: 6 }, "{has_ended}");
        let plan = SavePlan { stdout: Some(folder.path().join("stdout")), stderr: None, append: false };
        let error = process.save(plan).await.expect_err("a part is missing");
        assert!(error.message().contains("99000 bytes were dropped"), "{error:?}");
        let outcome = process.outcome().await;
        let result = outcome.result.as_ref().expect("a result");
        assert!(result.truncated && result.stdout.contains("[... "), "{has_ended}");
    }
}

#[tokio::test]
async fn saved_output_has_the_permissions_of_the_umask_wherever_it_is() {
    use std::os::unix::fs::PermissionsExt;
    let [inside, outside] = [tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder")];
    let mut modes = Vec::new();
    for folder in [inside.path(), outside.path()] {
        let mut spec = shell("echo x");
        spec.cwd = Some(inside.path().canonicalize().expect("a path"));
        let process = spawn(spec);
        let file = folder.join("output");
        let plan = SavePlan { stdout: Some(file.clone()), ..SavePlan::default() };
        process.save(plan).await.expect("saved");
        modes.push(std::fs::metadata(file).expect("a file").permissions().mode() & 0o777);
    }
    let plain = outside.path().join("plain");
    std::fs::write(&plain, "").expect("a file");
    assert_eq!(modes, [std::fs::metadata(plain).expect("a file").permissions().mode() & 0o777; 2]);
}

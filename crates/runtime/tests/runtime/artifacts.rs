//! The delivery of files: upload requests, uploads, and the report of missing files.

use super::sink::{Sink, upload_response};
use super::support::{Peer, server, server_with};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

fn commands(command: &str, directory: &Path) -> Value {
    json!({"message_type": "command_execution_message", "commands": [{"command": command, "cwd": directory}],
           "artifacts_dirs": [directory.join("out")]})
}

async fn answer(peer: &mut Peer, request: &Value, sink: &Sink, prefix: &str) {
    peer.send(upload_response(request, sink, prefix)).await;
}

/// Reads on, answering requests, until a message of this type.
async fn answering(peer: &mut Peer, sink: &Sink, kind: &str) -> (Value, Vec<Value>) {
    let mut seen = Vec::new();
    loop {
        let message = peer.next().await.unwrap_or_else(|| panic!("closed before {kind}: {seen:?}"));
        if message["message_type"] == kind {
            return (message, seen);
        }
        if message["message_type"] == "artifact_upload_request_message" {
            answer(peer, &message, sink, "").await;
        }
        seen.push(message);
    }
}

#[tokio::test]
async fn rule_6_finished_files_are_asked_for_before_the_terminal_and_a_put_outlives_the_socket() {
    let (server, sink, directory) = (server().await, Sink::start().await, tempfile::tempdir().unwrap());
    let mut peer = Peer::connect(&server).await;
    peer.send(commands("echo one > out/a.txt; mkdir out/sub; echo two > out/sub/b.txt", directory.path()))
        .await;
    let mut asked = BTreeSet::new();
    loop {
        let message = peer.next().await.unwrap();
        match message["message_type"].as_str().unwrap() {
            "artifact_upload_request_message" => {
                let under = Path::new(message["filepath"].as_str().unwrap())
                    .strip_prefix(directory.path())
                    .unwrap()
                    .to_owned();
                asked.insert(under.to_str().unwrap().to_owned());
                answer(&mut peer, &message, &sink, "slow/").await;
            }
            "command_execution_result_message" => break,
            _ => {}
        }
    }
    // A one-shot client disconnects at this point.
    drop(peer);
    assert_eq!(asked, BTreeSet::from(["out/a.txt".to_owned(), "out/sub/b.txt".to_owned()]));
    sink.until(|sink| sink.bodies("slow/a.txt") == [b"one\n"] && sink.bodies("slow/b.txt") == [b"two\n"])
        .await;
}

#[tokio::test]
async fn rule_6_a_client_that_answers_nothing_still_gets_its_terminal() {
    let (server, directory) = (server().await, tempfile::tempdir().unwrap());
    let mut peer = Peer::connect(&server).await;
    let started = Instant::now();
    peer.send(commands("echo one > out/a.txt", directory.path())).await;
    peer.next_of("artifact_upload_request_message").await;
    peer.terminal().await;
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}

#[tokio::test]
async fn rule_9_nothing_pending_is_confirmed_at_once() {
    let (server, directory) = (server().await, tempfile::tempdir().unwrap());
    let mut peer = Peer::connect(&server).await;
    peer.send(commands("true", directory.path())).await;
    peer.terminal().await;
    let started = Instant::now();
    peer.end().await;
    // A client that waited for the pending files would wait for half of the 50 s.
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}

#[tokio::test]
async fn rule_9_late_files_are_asked_for_answered_and_uploaded_before_the_confirm() {
    let (server, sink, directory) = (server().await, Sink::start().await, tempfile::tempdir().unwrap());
    let mut peer = Peer::connect(&server).await;
    peer.send(commands("true", directory.path())).await;
    peer.terminal().await;
    for number in 0..100 {
        std::fs::write(directory.path().join(format!("out/{number}")), format!("late {number}")).unwrap();
    }
    peer.send(json!({"message_type": "end_session_message"})).await;
    let (confirm, _) = answering(&mut peer, &sink, "end_session_confirm_message").await;
    assert_eq!(confirm["uploaded"], 100);
    assert_eq!(confirm["undelivered"], json!([]));
    for number in 0..100 {
        assert_eq!(sink.bodies(&number.to_string()), [format!("late {number}").as_bytes()]);
    }
    assert!(sink.most_open() <= 8, "rule 8: limited parallelism, not {}", sink.most_open());
}

#[tokio::test]
async fn rule_7_at_most_eight_requests_are_unanswered() {
    let (server, sink, directory) = (server().await, Sink::start().await, tempfile::tempdir().unwrap());
    let mut peer = Peer::connect(&server).await;
    peer.send(commands("for n in $(seq 20); do echo $n > out/$n; done", directory.path())).await;
    let mut asked = Vec::new();
    // The terminal message comes after a while without answers. All upload requests have been sent by then.
    for message in peer.until_terminal().await {
        if message["message_type"] == "artifact_upload_request_message" {
            asked.push(message);
        }
    }
    assert_eq!(asked.len(), 8);
    answer(&mut peer, &asked[0], &sink, "").await;
    let ninth = peer.next_of("artifact_upload_request_message").await;
    assert!(asked.iter().all(|earlier| earlier["filepath"] != ninth["filepath"]));
}

#[tokio::test]
async fn rule_7_an_answer_that_names_another_file_uploads_nothing() {
    let (server, sink, directory) = (server().await, Sink::start().await, tempfile::tempdir().unwrap());
    std::fs::write(directory.path().join("secret"), "secret").unwrap();
    let mut peer = Peer::connect(&server).await;
    peer.send(commands("echo mine > out/a", directory.path())).await;
    let request = peer.next_of("artifact_upload_request_message").await;
    for filepath in ["../secret", "out/../secret", "/etc/passwd", "a"] {
        let mut response = upload_response(&request, &sink, "stolen/");
        response["filepath"] = filepath.into();
        peer.send(response).await;
    }
    answer(&mut peer, &request, &sink, "").await;
    peer.terminal().await;
    peer.end().await;
    assert_eq!(sink.bodies("a"), [b"mine\n"]);
    assert_eq!(sink.bodies("stolen/a"), [] as [&[u8]; 0]);
}

#[tokio::test]
async fn rule_8_uploads_are_tried_again_and_their_fate_is_told() {
    let (server, sink, directory) = (server().await, Sink::start().await, tempfile::tempdir().unwrap());
    let mut peer = Peer::connect_for_fates(&server).await;
    peer.send(commands("printf abc > out/good; printf x > out/bad", directory.path())).await;
    let mut fates = Vec::new();
    while fates.len() < 2 {
        let message = peer.next().await.unwrap();
        match message["message_type"].as_str().unwrap() {
            "artifact_upload_request_message" => {
                let prefix = if message["filename"] == "bad" { "deny/" } else { "fail-2/" };
                answer(&mut peer, &message, &sink, prefix).await;
            }
            "artifact_upload_result_message" => fates.push(message),
            _ => {}
        }
    }
    let fate = |name: &str| fates.iter().find(|fate| fate["filename"] == name).unwrap().clone();
    assert_eq!(fate("good")["status"], "uploaded");
    assert_eq!(fate("good")["attempts"], 3);
    assert_eq!(fate("good")["bytes"], 3);
    assert_eq!(fate("good")["sha256"], "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_eq!(fate("bad")["status"], "failed");
    assert!(!fate("bad").to_string().contains("signature"), "the URL is a secret");
    let headers = sink.received.lock().unwrap()["/fail-2/good"][2].headers.clone();
    assert_eq!((headers["content-length"].as_str(), headers["content-type"].as_str()), ("3", "text/plain"));
    let confirm = peer.end().await;
    assert_eq!(confirm["uploaded"], 1);
    assert!(confirm["undelivered"][0]["reason"].as_str().unwrap().contains("403"), "{confirm}");
}

#[tokio::test]
async fn rule_8_a_file_that_changes_while_it_is_sent_is_sent_again_before_the_confirm() {
    let (server, sink, directory) = (server().await, Sink::start().await, tempfile::tempdir().unwrap());
    let mut peer = Peer::connect_for_fates(&server).await;
    peer.send(commands("printf before > out/changing", directory.path())).await;
    let request = peer.next_of("artifact_upload_request_message").await;
    answer(&mut peer, &request, &sink, "hold/").await;
    peer.terminal().await;
    sink.until(|sink| !sink.bodies("hold/changing").is_empty()).await;
    // No writer closes the file, so only the upload itself can notice the change.
    let file = std::fs::OpenOptions::new().write(true).open(directory.path().join("out/changing")).unwrap();
    (&file).write_all(b"and after").unwrap();
    sink.release.notify_one();
    let fate = peer.next_of("artifact_upload_result_message").await;
    assert_eq!(sink.bodies("hold/changing"), [b"before".as_slice(), b"and after"]);
    assert_eq!(
        (&fate["status"], &fate["attempts"], &fate["bytes"]),
        (&json!("uploaded"), &json!(2), &json!(9))
    );
    assert_eq!(fate["sha256"], "b1c898411da979ef2f3885e37107baa5688eae697aead520562cba257cbd448e");
    drop(file);
    // The file's last content was delivered, so closing the file causes no further request.
    let confirm = peer.end().await;
    assert_eq!((&confirm["uploaded"], &confirm["undelivered"]), (&json!(1), &json!([])), "{confirm}");
    assert_eq!(sink.bodies("hold/changing").len(), 2);
}

#[tokio::test]
async fn rule_8_a_server_that_says_when_to_come_again_is_left_alone_until_then() {
    let (server, sink, directory) = (server().await, Sink::start().await, tempfile::tempdir().unwrap());
    let mut peer = Peer::connect_for_fates(&server).await;
    peer.send(commands("printf x > out/patient", directory.path())).await;
    let request = peer.next_of("artifact_upload_request_message").await;
    answer(&mut peer, &request, &sink, "later/").await;
    assert_eq!(peer.next_of("artifact_upload_result_message").await["attempts"], 2);
    let times: Vec<Instant> =
        sink.received.lock().unwrap()["/later/patient"].iter().map(|received| received.at).collect();
    assert!(times[1] - times[0] >= Duration::from_secs(1), "{:?}", times[1] - times[0]);
}

#[tokio::test]
async fn rule_8_at_most_eight_uploads_run_at_a_time() {
    let (server, sink, directory) = (server().await, Sink::start().await, tempfile::tempdir().unwrap());
    let mut peer = Peer::connect_for_fates(&server).await;
    peer.send(commands("for n in $(seq 20); do echo $n > out/$n; done", directory.path())).await;
    let mut home = 0;
    while home < 20 {
        let message = peer.next().await.unwrap();
        match message["message_type"].as_str().unwrap() {
            "artifact_upload_request_message" => answer(&mut peer, &message, &sink, "slow/").await,
            "artifact_upload_result_message" => home += 1,
            _ => {}
        }
    }
    assert_eq!(sink.most_open(), 8);
}

#[tokio::test]
async fn rule_7_files_whose_names_are_no_text_are_not_mixed_up() {
    use std::os::unix::ffi::OsStrExt;
    let (server, sink, directory) = (server().await, Sink::start().await, tempfile::tempdir().unwrap());
    let mut peer = Peer::connect(&server).await;
    peer.send(commands("true", directory.path())).await;
    peer.terminal().await;
    for byte in [0xfe, 0xff] {
        let name = std::ffi::OsStr::from_bytes(&[byte]).to_owned();
        std::fs::write(directory.path().join("out").join(name), [byte]).unwrap();
    }
    peer.send(json!({"message_type": "end_session_message"})).await;
    let (confirm, _) = answering(&mut peer, &sink, "end_session_confirm_message").await;
    assert_eq!(confirm["uploaded"], 2, "{confirm}");
    let mut bodies: Vec<Vec<u8>> =
        sink.received.lock().unwrap().values().flatten().map(|one| one.body.clone()).collect();
    bodies.sort();
    assert_eq!(bodies, [[0xfe], [0xff]]);
}

#[tokio::test]
async fn rule_9_a_client_that_never_answers_cannot_hold_the_confirm() {
    let server = server_with(|options| options.drain_timeout = Duration::from_millis(600)).await;
    let directory = tempfile::tempdir().unwrap();
    let mut peer = Peer::connect(&server).await;
    peer.send(commands("true", directory.path())).await;
    peer.terminal().await;
    std::fs::write(directory.path().join("out/late"), "late").unwrap();
    let started = Instant::now();
    let confirm = peer.end().await;
    assert!(started.elapsed() >= Duration::from_millis(600));
    assert!(confirm["undelivered"][0]["path"].as_str().unwrap().ends_with("out/late"), "{confirm}");
    assert!(confirm["undelivered"][0]["reason"].as_str().unwrap().contains("did not answer"));
}

#[tokio::test]
async fn rule_5_a_file_that_is_still_written_is_waited_for_then_taken_as_it_stands() {
    let server = server_with(|options| options.drain_timeout = Duration::from_secs(2)).await;
    let (sink, directory) = (Sink::start().await, tempfile::tempdir().unwrap());
    let mut peer = Peer::connect(&server).await;
    peer.send(commands("true", directory.path())).await;
    peer.terminal().await;
    let mut never = std::fs::File::create(directory.path().join("out/never-closed")).unwrap();
    never.write_all(b"half").unwrap();
    let mut soon = std::fs::File::create(directory.path().join("out/closed-soon")).unwrap();
    soon.write_all(b"half").unwrap();
    peer.send(json!({"message_type": "end_session_message"})).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    soon.write_all(b" whole").unwrap();
    drop(soon);
    let (confirm, seen) = answering(&mut peer, &sink, "end_session_confirm_message").await;
    assert_eq!(confirm["uploaded"], 2, "{confirm}");
    assert_eq!(sink.bodies("closed-soon"), [b"half whole"]);
    assert_eq!(sink.bodies("never-closed"), [b"half"]);
    let warned: Vec<&Value> = seen
        .iter()
        .filter(|message| {
            message["message_type"] == "artifact_upload_request_message" && !message["warning"].is_null()
        })
        .collect();
    assert_eq!(warned.len(), 1);
    assert_eq!(warned[0]["filename"], "never-closed");
}

#[tokio::test]
async fn rule_6_one_content_is_uploaded_once_and_a_new_one_again() {
    let (server, sink, directory) = (server().await, Sink::start().await, tempfile::tempdir().unwrap());
    let mut peer = Peer::connect_for_fates(&server).await;
    for (word, is_new) in [("one", true), ("two", true), ("two", false)] {
        let command = format!("[ \"$(cat out/a)\" = {word} ] || echo {word} > out/a");
        peer.send(commands(&command, directory.path())).await;
        let fate = "artifact_upload_result_message";
        let (_, seen) = answering(&mut peer, &sink, "command_execution_result_message").await;
        // A content that is written during the upload of an earlier one is delivered by that upload.
        if is_new && !seen.iter().any(|message| message["message_type"] == fate) {
            answering(&mut peer, &sink, fate).await;
        }
    }
    peer.send(json!({"message_type": "end_session_message"})).await;
    let (confirm, _) = answering(&mut peer, &sink, "end_session_confirm_message").await;
    assert_eq!(sink.bodies("a"), [b"one\n", b"two\n"]);
    assert_eq!(confirm["uploaded"], 2);
}

#[tokio::test]
async fn rule_4_a_directory_that_is_a_file_ends_its_request_and_can_be_tried_again() {
    let (server, sink, directory) = (server().await, Sink::start().await, tempfile::tempdir().unwrap());
    std::fs::write(directory.path().join("out"), "a file").unwrap();
    let mut peer = Peer::connect(&server).await;
    peer.send(commands("true", directory.path())).await;
    assert_eq!(peer.terminal().await["message_type"], "error_message");
    std::fs::remove_file(directory.path().join("out")).unwrap();
    peer.send(commands("echo now > out/a", directory.path())).await;
    answering(&mut peer, &sink, "command_execution_result_message").await;
    assert_eq!(peer.end().await["uploaded"], 1);
}

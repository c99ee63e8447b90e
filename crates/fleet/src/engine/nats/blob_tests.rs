use super::super::test_server::{PATIENCE, Road, TestEngine, TestServer, connect};
use super::*;
use tokio::io::AsyncReadExt;

const CHUNK: &str = "PUB $O.SD_ART.C.";

/// A file whose chunks all differ.
fn file(folder: &tempfile::TempDir, bytes: usize) -> std::path::PathBuf {
    let path = folder.path().join("file");
    let words =
        (0..(bytes as u64).div_ceil(8)).flat_map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    std::fs::write(&path, words.take(bytes).collect::<Vec<u8>>()).unwrap();
    path
}

/// Messages in the store of objects.
async fn stored(engine: &TestEngine) -> u64 {
    engine.nats.0.context.get_stream(engine.names().blob_stream()).await.unwrap().cached_info().state.messages
}

#[tokio::test]
async fn a_file_comes_back_as_it_was_and_any_client_can_read_it() {
    let Some(server) = TestServer::start().await else { return };
    let engine = server.engine().await;
    let folder = tempfile::tempdir().unwrap();
    for bytes in [0, 1, CHUNK_BYTES, 12 * CHUNK_BYTES + 7] {
        let path = file(&folder, bytes);
        let text = std::fs::read(&path).unwrap();
        let (length, digest) =
            engine.put_file("job/1/a b.txt", std::fs::File::open(&path).unwrap()).await.unwrap();
        assert_eq!(length, bytes as u64);
        let expected: String = Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, expected);
        let to = folder.path().join("deep/back");
        engine.fetch_object("job/1/a b.txt", &to).await.unwrap();
        assert!(std::fs::read(&to).unwrap() == text, "{bytes}");
        assert!(engine.object("job/1/a b.txt").await.unwrap() == text, "{bytes}");
        let bucket = engine.nats.0.context.get_object_store(engine.names().blob_bucket()).await.unwrap();
        let mut theirs = Vec::new();
        bucket.get("job/1/a b.txt").await.unwrap().read_to_end(&mut theirs).await.unwrap();
        assert!(theirs == text, "{bytes}");
        let chunks = bytes.div_ceil(CHUNK_BYTES) as u64;
        assert_eq!(stored(&engine).await, chunks + 1, "what was there of this name before is gone");
    }
    let missing = engine.object("job/1/none").await.unwrap_err();
    assert_eq!(missing.code(), ErrorCode::JobNotFound);
}

#[tokio::test]
async fn some_chunks_are_on_their_way_at_a_time_and_no_more() {
    let Some(server) = TestServer::start().await else { return };
    let road = Road::to(&server, CHUNK).await;
    let engine = connect(&road.url).await;
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, 12 * CHUNK_BYTES);
    road.hold_until(usize::MAX);
    let put = ground::task::spawn({
        let engine = engine.clone();
        async move { engine.put_file("many", std::fs::File::open(&path).unwrap()).await }
    });
    let first = Window::FIRST / CHUNK_BYTES;
    road.until(first).await;
    // Were there more to come without an answer, they would come now.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(road.seen(), first);
    road.hold_until(0);
    let (length, _) = tokio::time::timeout(PATIENCE, put).await.unwrap().unwrap().unwrap();
    assert_eq!(length, 12 * CHUNK_BYTES as u64);
}

#[test]
fn the_window_follows_the_link() {
    let mut window = Window::new();
    for _ in 0..200 {
        window.on_answer(CHUNK_BYTES, Duration::from_millis(5));
    }
    assert_eq!(window.bytes, Window::MOST);
    window.on_answer(CHUNK_BYTES, Duration::from_millis(500));
    assert_eq!(window.bytes, Window::MOST, "it is as it should be");
    for _ in 0..50 {
        window.on_answer(CHUNK_BYTES, Duration::from_secs(3));
    }
    assert_eq!(window.bytes, CHUNK_BYTES, "one is always on its way");
}

/// On a link of 500 kB/s a chunk of 1 MiB took longer than its answer was waited for.
#[tokio::test]
async fn a_slow_link_takes_long_and_sends_nothing_twice() {
    let Some(server) = TestServer::start().await else { return };
    // Each on a link of its own, at the same time.
    tokio::join!(
        put_slowly(&server, 500_000),
        put_slowly(&server, 100_000),
        fetch_slowly(&server, 500_000),
        fetch_slowly(&server, 100_000),
    );
}

fn slow_file(folder: &tempfile::TempDir, rate: usize) -> (std::path::PathBuf, usize) {
    let bytes = (3 << 20).min(rate * 6);
    (file(folder, bytes), bytes)
}

async fn put_slowly(server: &TestServer, rate: usize) {
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = slow_file(&folder, rate);
    let name = format!("put-{rate}");
    let road = Road::to(server, CHUNK).await;
    let engine = connect(&road.url).await;
    road.slow_down(rate);
    let (before, begun) = (road.carried(), Instant::now());
    let put = engine.put_file(&name, std::fs::File::open(&path).unwrap());
    tokio::time::timeout(PATIENCE, put).await.unwrap().unwrap();
    let sent = road.carried() - before;
    assert!(sent < bytes + bytes / 10, "{sent} bytes were sent for {bytes}");
    assert!(begun.elapsed() > Duration::from_secs(4), "the link was slow");
    let stored = server.engine().await.object(&name).await.unwrap();
    assert!(stored == std::fs::read(&path).unwrap());
}

async fn fetch_slowly(server: &TestServer, rate: usize) {
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = slow_file(&folder, rate);
    let name = format!("fetch-{rate}");
    server.engine().await.put_file(&name, std::fs::File::open(&path).unwrap()).await.unwrap();
    let road = Road::to(server, CHUNK).await;
    let engine = connect(&road.url).await;
    road.slow_down(rate);
    let to = folder.path().join("back");
    let before = road.carried();
    let fetched = async {
        // A request of another user on the same link is answered meanwhile.
        let (fetched, asked) = tokio::join!(engine.fetch_object(&name, &to), async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            engine.read_record("nobody", RetryFor(Duration::ZERO)).await
        });
        assert!(asked.unwrap().is_none());
        fetched
    };
    tokio::time::timeout(PATIENCE, fetched).await.unwrap().unwrap();
    let got = road.carried() - before;
    assert!(got < bytes + bytes / 10, "{got} bytes came for {bytes}");
    assert!(std::fs::read(&to).unwrap() == std::fs::read(&path).unwrap());
}

#[tokio::test]
async fn a_connection_that_breaks_costs_a_second_try_and_leaves_nothing() {
    let Some(server) = TestServer::start().await else { return };
    let road = Road::to(&server, CHUNK).await;
    let engine = connect(&road.url).await;
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, 16 * CHUNK_BYTES);
    road.hold_until(usize::MAX);
    let put = ground::task::spawn({
        let (engine, path) = (engine.clone(), path.clone());
        async move { engine.put_file("many", std::fs::File::open(&path).unwrap()).await }
    });
    road.until(2).await;
    road.cut();
    road.hold_until(0);
    tokio::time::timeout(PATIENCE, put).await.unwrap().unwrap().unwrap();
    assert!(engine.object("many").await.unwrap() == std::fs::read(&path).unwrap());
    assert_eq!(stored(&engine).await, 16 + 1);
}

#[tokio::test]
async fn a_store_that_is_full_refuses_the_whole_and_keeps_nothing_of_it() {
    let Some(server) = TestServer::start().await else { return };
    let engine = server.engine().await;
    let mut stream = engine.nats.0.context.get_stream(engine.names().blob_stream()).await.unwrap();
    let mut config = stream.info().await.unwrap().config.clone();
    config.max_bytes = 4 * CHUNK_BYTES as i64;
    engine.nats.0.context.update_stream(config).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, 16 * CHUNK_BYTES);
    let error = engine.put_file("many", std::fs::File::open(&path).unwrap()).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::FleetFull, "{error}");
    assert_eq!(stored(&engine).await, 0);
    assert_eq!(engine.object("many").await.unwrap_err().code(), ErrorCode::JobNotFound);
}

#[test]
fn a_digest_is_shown_in_hexadecimal_digits() {
    let digest = "SHA-256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU=";
    assert_eq!(hexadecimal(digest), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

use super::super::test_server::{PATIENCE, Road, TestServer, connect};
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
async fn stored(engine: &Engine) -> u64 {
    engine.0.context.get_stream(engine.names().blob_stream()).await.unwrap().cached_info().state.messages
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
        let bucket = engine.0.context.get_object_store(engine.names().blob_bucket()).await.unwrap();
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
    let path = file(&folder, 3 * IN_FLIGHT * CHUNK_BYTES);
    road.hold_until(usize::MAX);
    let put = tokio::spawn({
        let engine = engine.clone();
        async move { engine.put_file("many", std::fs::File::open(&path).unwrap()).await }
    });
    road.until(IN_FLIGHT).await;
    // Were there more to come without an answer, they would come now.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(road.seen(), IN_FLIGHT);
    road.hold_until(0);
    let (length, _) = tokio::time::timeout(PATIENCE, put).await.unwrap().unwrap().unwrap();
    assert_eq!(length, (3 * IN_FLIGHT * CHUNK_BYTES) as u64);
}

#[tokio::test]
async fn a_connection_that_breaks_costs_a_second_try_and_leaves_nothing() {
    let Some(server) = TestServer::start().await else { return };
    let road = Road::to(&server, CHUNK).await;
    let engine = connect(&road.url).await;
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, 2 * IN_FLIGHT * CHUNK_BYTES);
    road.hold_until(usize::MAX);
    let put = tokio::spawn({
        let (engine, path) = (engine.clone(), path.clone());
        async move { engine.put_file("many", std::fs::File::open(&path).unwrap()).await }
    });
    road.until(3).await;
    road.cut();
    road.hold_until(0);
    tokio::time::timeout(PATIENCE, put).await.unwrap().unwrap().unwrap();
    assert!(engine.object("many").await.unwrap() == std::fs::read(&path).unwrap());
    assert_eq!(stored(&engine).await, 2 * IN_FLIGHT as u64 + 1);
}

#[tokio::test]
async fn a_store_that_is_full_refuses_the_whole_and_keeps_nothing_of_it() {
    let Some(server) = TestServer::start().await else { return };
    let engine = server.engine().await;
    let mut stream = engine.0.context.get_stream(engine.names().blob_stream()).await.unwrap();
    let mut config = stream.info().await.unwrap().config.clone();
    config.max_bytes = 4 * CHUNK_BYTES as i64;
    engine.0.context.update_stream(config).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, 2 * IN_FLIGHT * CHUNK_BYTES);
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

use super::super::test_server::{PATIENCE, program};
use super::*;
use futures_util::FutureExt;

/// A folder for a server; `None`, loudly, where there is no program for it.
fn home() -> Option<(tempfile::TempDir, Home)> {
    let places = ServerPlaces { named: Some(program()?), ..ServerPlaces::default() };
    let folder = tempfile::tempdir().unwrap();
    let home = Home { folder: folder.path().join("fleet"), places };
    home.prepare().unwrap();
    Some((folder, home))
}

async fn start(home: &Home, may_move: bool) -> Option<Owned> {
    let begun = Instant::now();
    let lock = loop {
        // A process that another test is just starting may have the last one for a moment.
        match home.try_lock().unwrap() {
            Some(lock) => break lock,
            None => assert!(begun.elapsed() < PATIENCE, "the lock stays taken"),
        }
        tokio::time::sleep(LOOK_EVERY).await;
    };
    home.start(lock, may_move).await.unwrap()
}

async fn joined(home: &Home) -> Result<Local, Error> {
    Local::join(&home.folder, &home.places, |_, _| async { Ok(()) }).await.map(|(local, ())| local)
}

#[tokio::test]
async fn a_server_that_ends_before_the_connection_is_there_is_joined_anew() {
    let Some((_folder, home)) = home() else { return };
    let tries = std::cell::Cell::new(0);
    let gone = || Error::new(ErrorCode::FleetUnreachable, "connection refused");
    let connect = |url, _| {
        tries.set(tries.get() + 1);
        let result = if tries.get() == 1 { Err(gone()) } else { Ok(url) };
        async { result }
    };
    let (local, url) = Local::join(&home.folder, &home.places, connect).await.unwrap();
    assert_eq!((url, tries.get()), (local.url.clone(), 2));
    // Another reason is told at once.
    let refused = |_, _| async { Err::<(), _>(Error::new(ErrorCode::FleetServerTooOld, "it is old")) };
    let error = Local::join(&home.folder, &home.places, refused).await.map(drop).unwrap_err();
    assert_eq!(error.code(), ErrorCode::FleetServerTooOld);
    local.close().await;
}

async fn stop(owned: Owned) {
    owned.process.stop(StopReason::Killed);
    owned.process.outcome().await;
}

#[tokio::test]
async fn a_server_moves_only_when_it_may() {
    let Some((_folder, home)) = home() else { return };
    let first = start(&home, true).await.unwrap();
    let port = first.facts.port;
    stop(first).await;
    let taken = TcpListener::bind(loopback(port)).unwrap();
    assert!(start(&home, false).await.is_none());
    assert_eq!(home.facts().unwrap().port, port);
    drop(taken);
    let second = start(&home, false).await.unwrap();
    assert_eq!(second.facts.port, port);
    stop(second).await;
    let _taken = TcpListener::bind(loopback(port)).unwrap();
    let third = start(&home, true).await.unwrap();
    assert_ne!(third.facts.port, port);
    stop(third).await;
}

#[tokio::test]
async fn who_goes_on_with_a_lost_server_goes_on_at_its_port() {
    let Some((_folder, home)) = home() else { return };
    let owner = joined(&home).await.unwrap();
    let rest = joined(&home).await.unwrap();
    let before = home.facts().unwrap();
    owner.close().await;
    // Nobody has the server, its port is another's, and one is in the fleet.
    let taken = TcpListener::bind(loopback(before.port)).unwrap();
    let mut newcomer = Box::pin(joined(&home));
    // Its first try.
    assert!((&mut newcomer).now_or_never().is_none());
    drop(taken);
    let newcomer = newcomer.await.unwrap();
    let after = home.facts().unwrap();
    assert_ne!(after.pid, before.pid);
    assert_eq!((after.port, newcomer.url.as_str()), (before.port, rest.url.as_str()));
    newcomer.close().await;
    let (_here, is_connected) = watch::channel(false);
    rest.watch_over(is_connected).await;
    let begun = Instant::now();
    while home.facts().unwrap().pid == after.pid {
        assert!(begun.elapsed() < PATIENCE, "nobody goes on");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    assert_eq!(home.facts().unwrap().port, before.port);
    rest.close().await;
    // With nobody in the fleet it may be elsewhere.
    let _taken = TcpListener::bind(loopback(before.port)).unwrap();
    let last = joined(&home).await.unwrap();
    assert_ne!(last.url, rest.url);
    last.close().await;
}

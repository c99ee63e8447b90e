//! Files, on threads where they may hang. tokio's own file functions panic when the system refuses them a thread.

use super::blocking::blocking;
use super::system::file::read_at;
use bytes::Bytes;
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;

/// Runs file system work that returns an `io::Result`.
pub async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    blocking(work).await?
}

/// Reads at most `most` bytes from this offset. Returns an empty piece at the end of the file.
pub async fn read_piece(file: &Arc<File>, offset: u64, most: usize) -> io::Result<Bytes> {
    let file = Arc::clone(file);
    on_disk(move || {
        let mut piece = vec![0; most];
        let read = loop {
            match read_at(&file, &mut piece, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        piece.truncate(read);
        Ok(piece.into())
    })
    .await
}

/// Appends a piece to the file.
pub async fn write_piece(file: &Arc<File>, piece: Bytes) -> io::Result<()> {
    let file = Arc::clone(file);
    on_disk(move || (&*file).write_all(&piece)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_written_in_pieces_is_read_in_pieces() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let created = path.clone();
        let file = on_disk(move || File::create_new(created).map(Arc::new)).await.expect("a file");
        let half = Bytes::from(vec![7; 99]);
        write_piece(&file, half.clone()).await.expect("written");
        write_piece(&file, half).await.expect("written");
        let file = Arc::new(File::open(path).expect("a file"));
        let mut lengths = Vec::new();
        for offset in [0, 100, 198] {
            let piece = read_piece(&file, offset, 100).await.expect("read");
            assert!(piece.iter().all(|byte| *byte == 7));
            lengths.push(piece.len());
        }
        assert_eq!(lengths, [100, 98, 0]);
    }
}

//! Whole files and long texts, by name, in chunks.

use super::connection::Engine;
use super::store::away;
use crate::error::{Error, ErrorCode};
use crate::os::{on_disk, open_file, pieces, write_piece};
use async_nats::jetstream::object_store::{GetErrorKind, ObjectMetadata, ObjectStore};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use bytes::Bytes;
use std::fs::File;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_util::io::StreamReader;

/// The default of 128 KiB costs half the speed; a server that takes less than this in a message gets what it takes.
const CHUNK_BYTES: usize = 1 << 20;

impl Engine {
    async fn objects(&self) -> Result<ObjectStore, Error> {
        let store = self.0.context.get_object_store(self.names().blob_bucket()).await;
        store.map_err(|error| away(&error.to_string()))
    }

    pub(crate) async fn put_object(&self, name: &str, bytes: Bytes) -> Result<(), Error> {
        self.put_from(name, &mut bytes.as_ref()).await.map(drop)
    }

    /// The file's length and its SHA-256 in hexadecimal digits.
    pub(crate) async fn put_file(&self, name: &str, path: &Path) -> Result<(u64, String), Error> {
        let file = open_file(path).await.map_err(|error| unreadable(path, &error))?;
        self.put_from(name, &mut pin!(StreamReader::new(pieces(file)))).await
    }

    async fn put_from(
        &self,
        name: &str,
        source: &mut (impl AsyncRead + Unpin),
    ) -> Result<(u64, String), Error> {
        let metadata = ObjectMetadata {
            name: name.to_owned(),
            chunk_size: Some(CHUNK_BYTES.min(self.max_message_bytes())),
            ..ObjectMetadata::default()
        };
        let stored = self.objects().await?.put(metadata, source).await;
        let info = stored.map_err(|error| {
            let message = format!("{name} could not be stored: {error}");
            Error::new(ErrorCode::FleetStorage, message)
        })?;
        Ok((info.size as u64, hexadecimal(info.digest.as_deref().unwrap_or_default())))
    }

    pub(crate) async fn object(&self, name: &str) -> Result<Bytes, Error> {
        let mut object = self.open_object(name).await?;
        let mut bytes = Vec::new();
        object.read_to_end(&mut bytes).await.map_err(|error| broken(name, &error))?;
        Ok(bytes.into())
    }

    /// Writes the object into a file, which is there whole or not at all.
    pub(crate) async fn fetch_object(&self, name: &str, to: &Path) -> Result<(), Error> {
        let mut object = self.open_object(name).await?;
        let mut unfinished = to.as_os_str().to_owned();
        unfinished.push(format!(".{}.part", std::process::id()));
        let unfinished = std::path::PathBuf::from(unfinished);
        if let Some(folder) = to.parent() {
            let folder = folder.to_owned();
            on_disk(move || std::fs::create_dir_all(folder)).await.map_err(|error| unwritable(to, &error))?;
        }
        let created = unfinished.clone();
        let file = on_disk(move || File::create(created).map(Arc::new)).await;
        let file = file.map_err(|error| unwritable(to, &error))?;
        let mut buffer = vec![0; 256 << 10];
        let copied: Result<(), Error> = async {
            loop {
                let length = object.read(&mut buffer).await.map_err(|error| broken(name, &error))?;
                if length == 0 {
                    break;
                }
                let piece = Bytes::copy_from_slice(&buffer[..length]);
                write_piece(&file, piece).await.map_err(|error| unwritable(to, &error))?;
            }
            let (from, to_path) = (unfinished.clone(), to.to_owned());
            on_disk(move || std::fs::rename(from, to_path)).await.map_err(|error| unwritable(to, &error))
        }
        .await;
        if copied.is_err() {
            let _ = on_disk(move || std::fs::remove_file(unfinished)).await;
        }
        copied
    }

    async fn open_object(&self, name: &str) -> Result<async_nats::jetstream::object_store::Object, Error> {
        self.objects().await?.get(name).await.map_err(|error| match error.kind() {
            GetErrorKind::NotFound => {
                Error::new(ErrorCode::JobNotFound, format!("the fleet has no {name}, or not any more"))
            }
            _ => away(&error.to_string()),
        })
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    Error::new(ErrorCode::FleetStorage, format!("{} can't be read: {error}", path.display()))
}

fn unwritable(path: &Path, error: &std::io::Error) -> Error {
    Error::invalid_option("to", format!("{} can't be written: {error}", path.display()))
}

fn broken(name: &str, error: &std::io::Error) -> Error {
    Error::new(ErrorCode::FleetStorage, format!("{name} could not be read whole: {error}"))
}

/// The store says `SHA-256=` and base64url.
fn hexadecimal(digest: &str) -> String {
    let encoded = digest.split_once('=').map_or("", |(_, encoded)| encoded);
    let bytes = URL_SAFE.decode(encoded).unwrap_or_default();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_digest_is_shown_in_hexadecimal_digits() {
        let digest = "SHA-256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU=";
        assert_eq!(
            super::hexadecimal(digest),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }
}

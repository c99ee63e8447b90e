//! Objects of a fleet in memory.

use super::handle::Memory;
use crate::engine::interface::Objects;
use crate::engine::value::{no_object, unwritable};
use async_trait::async_trait;
use bytes::Bytes;
use ground::error::Error;
use ground::hex::hex;
use ground::os::on_disk;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::SystemTime;

#[async_trait]
impl Objects for Memory {
    async fn put_object(&self, name: &str, bytes: Bytes) -> Result<(), Error> {
        self.change(|state| state.objects.insert(name.to_owned(), (bytes, SystemTime::now())));
        Ok(())
    }

    async fn put_file(&self, name: &str, mut file: File) -> Result<(u64, String), Error> {
        let read = on_disk(move || {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok((hex(&Sha256::digest(&bytes)), bytes))
        });
        let (digest, bytes) = read
            .await
            .map_err(|error| Error::invalid_option("path", format!("{name} can't be read: {error}")))?;
        let length = bytes.len() as u64;
        self.put_object(name, bytes.into()).await?;
        Ok((length, digest))
    }

    async fn object(&self, name: &str) -> Result<Bytes, Error> {
        let found = self.read(|state| state.objects.get(name).map(|(bytes, _)| bytes.clone()));
        found.ok_or_else(|| no_object(name))
    }

    async fn fetch_object(&self, name: &str, to: &Path) -> Result<(), Error> {
        let (bytes, path) = (self.object(name).await?, to.to_owned());
        let written = on_disk(move || {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            let mut unfinished = path.as_os_str().to_owned();
            unfinished.push(format!(".{}.part", ground::random::name::<8>()));
            let moved =
                std::fs::write(&unfinished, &bytes).and_then(|()| std::fs::rename(&unfinished, &path));
            if moved.is_err() {
                let _ = std::fs::remove_file(&unfinished);
            }
            moved
        });
        written.await.map_err(|error| unwritable(to, &error))
    }

    async fn drop_objects(
        &self,
        is_meant: &(dyn for<'name> Fn(&'name str, SystemTime) -> bool + Send + Sync),
        is_trial: bool,
    ) -> Result<(u64, u64), Error> {
        Ok(self.change(|state| {
            let (mut count, mut bytes) = (0, 0);
            state.objects.retain(|name, (object, at)| {
                let is_meant = is_meant(name, *at);
                if is_meant {
                    (count, bytes) = (count + 1, bytes + object.len() as u64);
                }
                !is_meant || is_trial
            });
            (count, bytes)
        }))
    }
}

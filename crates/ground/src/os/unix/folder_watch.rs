//! The process's only inotify instance: directories in, changes of their entries out. No other module uses inotify.
//!
//! One thread reads from it. The thread starts with the first watch and ends with the last; removing a watch wakes it. Two
//! watchers of the same directory share the kernel's watch.

use super::super::folder_event::{FolderChange, FolderEvent};
use crate::lock::lock;
use crate::mpsc;
use inotify::{EventMask, Inotify, WatchDescriptor, WatchMask, Watches};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

struct Subscriber {
    number: u64,
    directory: PathBuf,
    events: mpsc::Sender<FolderEvent>,
}

struct Instance {
    watches: Watches,
    subscribers: HashMap<WatchDescriptor, Vec<Subscriber>>,
    next_number: u64,
}

static INSTANCE: Mutex<Option<Instance>> = Mutex::new(None);

fn instance() -> MutexGuard<'static, Option<Instance>> {
    // The data stays consistent after a panic, because no user code runs under the lock.
    lock(&INSTANCE)
}

/// A watched directory; dropping it ends the watch.
pub struct FolderWatch {
    descriptor: WatchDescriptor,
    number: u64,
}

/// Watches the entries of one directory, not those below. Fails at the kernel's limits, or when the path is not a directory.
pub fn watch_folder(directory: &Path, events: &mpsc::Sender<FolderEvent>) -> io::Result<FolderWatch> {
    let mut guard = instance();
    let instance = match guard.as_mut() {
        Some(instance) => instance,
        None => {
            let inotify = Inotify::init()?;
            let watches = inotify.watches();
            std::thread::Builder::new().name("sheepdog-watch".to_owned()).spawn(move || read(inotify))?;
            guard.insert(Instance { watches, subscribers: HashMap::new(), next_number: 0 })
        }
    };
    let mask = WatchMask::CLOSE_WRITE
        | WatchMask::MOVED_TO
        | WatchMask::MOVED_FROM
        | WatchMask::CREATE
        | WatchMask::DELETE
        | WatchMask::ONLYDIR
        | WatchMask::DONT_FOLLOW
        | WatchMask::EXCL_UNLINK;
    let descriptor = instance.watches.add(directory, mask)?;
    instance.next_number += 1;
    let number = instance.next_number;
    instance.subscribers.entry(descriptor.clone()).or_default().push(Subscriber {
        number,
        directory: directory.to_owned(),
        events: events.clone(),
    });
    Ok(FolderWatch { descriptor, number })
}

impl Drop for FolderWatch {
    fn drop(&mut self) {
        let mut guard = instance();
        let Some(instance) = guard.as_mut() else { return };
        let Some(subscribers) = instance.subscribers.get_mut(&self.descriptor) else { return };
        subscribers.retain(|subscriber| subscriber.number != self.number);
        if subscribers.is_empty() {
            instance.subscribers.remove(&self.descriptor);
            // Removing fails when the directory is gone, and the watch with it. Either way the reader gets an IGNORED event.
            let _ = instance.watches.remove(self.descriptor.clone());
        }
    }
}

fn read(mut inotify: Inotify) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let events = match inotify.read_events_blocking(&mut buffer) {
            Ok(events) => events,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => {
                // No further changes will be reported. Watchers that are told of lost events scan instead.
                let ended = instance().take();
                for subscriber in ended.iter().flat_map(|instance| instance.subscribers.values().flatten()) {
                    subscriber.tell(FolderChange::Lost, None, false);
                }
                return;
            }
        };
        let mut guard = instance();
        let Some(instance) = guard.as_mut() else { return };
        for event in events {
            instance.dispatch(&event);
        }
        if instance.subscribers.is_empty() {
            *guard = None;
            return;
        }
    }
}

impl Instance {
    fn dispatch(&mut self, event: &inotify::Event<&std::ffi::OsStr>) {
        if event.mask.contains(EventMask::Q_OVERFLOW) {
            for subscriber in self.subscribers.values().flatten() {
                subscriber.tell(FolderChange::Lost, None, false);
            }
            return;
        }
        if event.mask.contains(EventMask::IGNORED) {
            for subscriber in self.subscribers.remove(&event.wd).into_iter().flatten() {
                subscriber.tell(FolderChange::Unwatched, None, true);
            }
            return;
        }
        let is_dir = event.mask.contains(EventMask::ISDIR);
        let change = if event.mask.intersects(EventMask::DELETE | EventMask::MOVED_FROM) {
            FolderChange::Gone
        } else if is_dir && event.mask.intersects(EventMask::CREATE | EventMask::MOVED_TO) {
            FolderChange::DirectoryCame
        } else if event.mask.intersects(EventMask::CLOSE_WRITE | EventMask::MOVED_TO) {
            FolderChange::FileClosed
        } else if event.mask.contains(EventMask::CREATE) {
            FolderChange::FileMade
        } else {
            return;
        };
        for subscriber in self.subscribers.get(&event.wd).into_iter().flatten() {
            subscriber.tell(change, event.name, is_dir);
        }
    }
}

impl Subscriber {
    fn tell(&self, change: FolderChange, name: Option<&std::ffi::OsStr>, is_dir: bool) {
        let path = name.map_or_else(|| self.directory.clone(), |name| self.directory.join(name));
        // A full queue loses nothing: its reader notices it and scans (`TreeWatch`).
        let _ = self.events.try_send(FolderEvent { change, path, is_dir });
    }
}

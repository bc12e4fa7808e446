//! Tracks the files that each thread's agent has read, so that it cannot change a file it has not seen, and serializes
//! changes of one file. The tracker lives as long as the process: after a restart a file must be read again before it
//! is changed, unless the user approved the change before.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use protocol::ThreadId;
use sha2::{Digest, Sha256};
use tokio::sync::OwnedMutexGuard;

/// Maximum number of tracked files. When it is reached, all entries are dropped, and the agent has to read a file again
/// before it can change it.
const FILES_MAX: usize = 20_000;
/// Number of file locks from which on unused locks are dropped.
const LOCKS_MAX: usize = 256;

/// The content hash of each file that an agent has read, by thread and absolute path, and a lock for each file that is
/// being changed.
#[derive(Debug, Default)]
pub(crate) struct ReadTracker {
    files: Mutex<HashMap<(ThreadId, PathBuf), ContentHash>>,
    locks: Mutex<HashMap<PathBuf, Arc<tokio::sync::Mutex<()>>>>,
}

/// SHA-256 of a file's content.
pub(crate) type ContentHash = [u8; 32];

/// The agent's knowledge of a file, compared with the file's present content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKnowledge {
    /// The agent has read or written exactly this content.
    Current,
    /// The agent has read different content.
    Stale,
    /// The agent has not read the file.
    None,
}

impl ReadTracker {
    /// Records the content of a file that the thread's agent has read or written. `path` is absolute, with links
    /// resolved.
    pub fn record_read(&self, thread_id: ThreadId, path: &Path, hash: ContentHash) {
        let mut files = self.files.lock();
        if files.len() >= FILES_MAX {
            files.clear();
        }
        files.insert((thread_id, path.to_owned()), hash);
    }

    /// Compares `bytes`, the file's present content, with the content that the thread's agent has read.
    pub fn knowledge(&self, thread_id: ThreadId, path: &Path, bytes: &[u8]) -> FileKnowledge {
        let known = {
            let files = self.files.lock();
            files.get(&(thread_id, path.to_owned())).copied()
        };
        match known {
            Some(known) if known == hash_content(bytes) => FileKnowledge::Current,
            Some(_) => FileKnowledge::Stale,
            None => FileKnowledge::None,
        }
    }

    /// Waits for the lock of a file and acquires it. Dropping the guard releases it. The lock is fair and holds for
    /// this process only. Dropping the future while it waits acquires nothing.
    pub async fn lock_file(&self, path: &Path) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.locks.lock();
            if locks.len() >= LOCKS_MAX {
                // A lock that is held or waited for has another reference.
                locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            }
            Arc::clone(locks.entry(path.to_owned()).or_default())
        };
        lock.lock_owned().await
    }
}

/// Returns the SHA-256 of a file's content.
pub(crate) fn hash_content(bytes: &[u8]) -> ContentHash {
    Sha256::digest(bytes).into()
}

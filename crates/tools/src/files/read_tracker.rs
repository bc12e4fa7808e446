//! Tracks the files that each thread's agent has read, so that it cannot change a file it has not seen, and serialises
//! changes of one file. The tracker lives as long as the process: after a restart a file must be read again before it is
//! changed, unless a person approved the change before.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use protocol::ThreadId;
use sha2::{Digest, Sha256};
use tokio::sync::OwnedMutexGuard;

/// The most files that are remembered; beyond it all are forgotten, and read again when they are needed.
const FILES_MAX: usize = 20_000;
/// How many files have turns before those that nobody waits for are forgotten.
const LOCKS_MAX: usize = 256;

/// The files that were read, by thread, and the turns of those who change them.
#[derive(Debug, Default)]
pub(crate) struct ReadTracker {
    files: Mutex<HashMap<(ThreadId, PathBuf), ContentHash>>,
    locks: Mutex<HashMap<PathBuf, Arc<tokio::sync::Mutex<()>>>>,
}

/// SHA-256 of a file's content.
pub(crate) type ContentHash = [u8; 32];

/// How what an agent knows of a file compares with what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKnowledge {
    /// The agent has read, or written, exactly this.
    Current,
    /// It has read something else.
    Stale,
    /// It has not read the file.
    None,
}

impl ReadTracker {
    /// Remembers that the thread's agent knows the file's content.
    pub fn record_read(&self, thread_id: ThreadId, path: &Path, hash: ContentHash) {
        let mut files = self.files.lock();
        if files.len() >= FILES_MAX {
            files.clear();
        }
        files.insert((thread_id, path.to_owned()), hash);
    }

    /// Returns whether the thread's agent knows `bytes` as the file's content.
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

    /// Waits until nobody else changes the file; the turn ends when the guard is dropped.
    pub async fn lock_file(&self, path: &Path) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.locks.lock();
            if turns.len() >= LOCKS_MAX {
                turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            }
            Arc::clone(turns.entry(path.to_owned()).or_default())
        };
        turn.lock_owned().await
    }
}

/// Returns the hash of a file's content.
pub(crate) fn hash_content(bytes: &[u8]) -> ContentHash {
    Sha256::digest(bytes).into()
}

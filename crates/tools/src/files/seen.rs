//! What of the workspace each thread's agent has read, so that it cannot change what it does not know, and whose turn
//! it is to change a file. It lives as long as the process: after a restart a file is read again before it is changed,
//! unless a person was asked about the change before.

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
const TURNS_MAX: usize = 256;

/// The files that were read, by thread, and the turns of those who change them.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    files: Mutex<HashMap<(ThreadId, PathBuf), Hash>>,
    turns: Mutex<HashMap<PathBuf, Arc<tokio::sync::Mutex<()>>>>,
}

/// SHA-256 of a file's content.
pub(crate) type Hash = [u8; 32];

/// How what an agent knows of a file compares with what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Knowledge {
    /// The agent has read, or written, exactly this.
    Current,
    /// It has read something else.
    Stale,
    /// It has not read the file.
    None,
}

impl Seen {
    /// Remembers that the thread's agent knows the file's content.
    pub fn learn(&self, thread_id: ThreadId, path: &Path, hash: Hash) {
        let mut files = self.files.lock();
        if files.len() >= FILES_MAX {
            files.clear();
        }
        files.insert((thread_id, path.to_owned()), hash);
    }

    /// Returns whether the thread's agent knows `bytes` as the file's content.
    pub fn knows(&self, thread_id: ThreadId, path: &Path, bytes: &[u8]) -> Knowledge {
        let known = {
            let files = self.files.lock();
            files.get(&(thread_id, path.to_owned())).copied()
        };
        match known {
            Some(known) if known == hash(bytes) => Knowledge::Current,
            Some(_) => Knowledge::Stale,
            None => Knowledge::None,
        }
    }

    /// Waits until nobody else changes the file; the turn ends when the guard is dropped.
    pub async fn turn(&self, path: &Path) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.turns.lock();
            if turns.len() >= TURNS_MAX {
                turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            }
            Arc::clone(turns.entry(path.to_owned()).or_default())
        };
        turn.lock_owned().await
    }
}

/// Returns the hash of a file's content.
pub(crate) fn hash(bytes: &[u8]) -> Hash {
    Sha256::digest(bytes).into()
}

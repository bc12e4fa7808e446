//! A running digest over entries, so that an import sees where a file continues or leaves an earlier one. It compares
//! nothing and keeps nothing but its last value.

use protocol::ToolStatus;
use sha2::{Digest, Sha256};

use crate::entry::{EntryBody, EntryTrack, MediaReference, TranscriptEntry};

/// The digest of all entries so far.
///
/// Two files whose chains agree at entry *n* hold the same first *n* entries. Times and native ids do not count: a copy
/// of a session may have others.
#[derive(Debug, Clone, Default)]
pub struct DigestChain {
    last_digest: [u8; 16],
}

impl DigestChain {
    /// Adds an entry and returns the digest of everything up to it: 32 lowercase hex digits.
    pub fn push(&mut self, entry: &TranscriptEntry) -> String {
        let mut hash = Sha256::new();
        hash.update(self.last_digest);
        hash_entry(&mut hash, entry);
        let digest = hash.finalize();
        self.last_digest.copy_from_slice(&digest[..16]);
        protocol::hex(&self.last_digest)
    }
}

/// Feeds what an entry says into `hash`, every field with its length so that neighbours cannot run together.
fn hash_entry(hash: &mut Sha256, entry: &TranscriptEntry) {
    let mut field = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    field(entry.kind().as_str().as_bytes());
    field(entry.role().as_str().as_bytes());
    field(match entry.track {
        EntryTrack::Main => b"main",
        EntryTrack::Side => b"side",
    });
    field(entry.text().as_bytes());
    match &entry.body {
        EntryBody::ToolCall { call_id, tool, args } => {
            field(call_id.as_deref().unwrap_or_default().as_bytes());
            field(tool.as_bytes());
            field(args.to_string().as_bytes());
        }
        EntryBody::ToolResult { call_id, status, media, .. } => {
            field(call_id.as_deref().unwrap_or_default().as_bytes());
            field(match status {
                ToolStatus::Success => b"success",
                ToolStatus::Error => b"error",
            });
            hash_media(hash, media);
        }
        EntryBody::Boundary { details, .. } => field(details.to_string().as_bytes()),
        EntryBody::Text { media, .. } => hash_media(hash, media),
        EntryBody::Thinking { .. } | EntryBody::Summary { .. } | EntryBody::Note { .. } => {}
    }
}

/// Feeds the digests of images into `hash`.
fn hash_media(hash: &mut Sha256, media: &[MediaReference]) {
    for item in media {
        hash.update(item.sha256.as_deref().unwrap_or_default().as_bytes());
    }
}

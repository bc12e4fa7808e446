//! A running digest over the entries of a conversation. An import compares the digests of two reads to find the entry
//! after which a file continues or differs from an earlier version. The comparison itself is the importer's task.

use protocol::ToolStatus;
use sha2::{Digest, Sha256};

use crate::entry::{EntryBody, EntryTrack, MediaReference, TranscriptEntry};

/// A hash chain over entries: each digest covers the entry and the digest before it.
///
/// Two files whose chains agree at entry *n* have the same first *n* entries. Times and native ids are not hashed,
/// because a copy of a session may have different ones.
#[derive(Debug, Clone, Default)]
pub struct DigestChain {
    /// The digest of all entries so far: the first 16 bytes of a SHA-256. All zero before the first entry.
    last_digest: [u8; 16],
}

impl DigestChain {
    /// Adds an entry and returns the digest of all entries up to and including it, as 32 lowercase hex digits.
    pub fn push(&mut self, entry: &TranscriptEntry) -> String {
        let mut hash = Sha256::new();
        hash.update(self.last_digest);
        hash_entry(&mut hash, entry);
        let digest = hash.finalize();
        self.last_digest.copy_from_slice(&digest[..16]);
        protocol::hex(&self.last_digest)
    }
}

/// Feeds the content of an entry into `hash`. Each field is prefixed with its length, so that different splits of the
/// same bytes into fields have different digests.
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

/// Feeds the digests of images into `hash`. An image without a digest adds nothing.
fn hash_media(hash: &mut Sha256, media: &[MediaReference]) {
    for item in media {
        hash.update(item.sha256.as_deref().unwrap_or_default().as_bytes());
    }
}

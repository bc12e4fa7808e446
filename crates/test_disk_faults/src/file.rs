//! The content of a simulated file that would survive a power loss, and its changes since the last sync. The content that SQLite
//! reads is in the real file.

/// The unit that a disk writes as a whole, in bytes.
const SECTOR_BYTES: usize = 512;

/// A file, as far as a power loss affects it.
#[derive(Debug, Default)]
pub(crate) struct SimulatedFile {
    /// The content that survives. `None` if the file would not exist.
    durable: Option<Vec<u8>>,
    /// The changes since the last sync, in order.
    unsynced: Vec<FileChange>,
}

/// A change of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FileChange {
    /// The file is created.
    Create,
    /// Bytes are written.
    Write {
        /// The position of the first byte.
        offset: usize,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The length is set.
    Truncate {
        /// The new length in bytes.
        length: usize,
    },
    /// The file is deleted.
    Delete,
}

impl FileChange {
    /// Returns whether the change concerns the entry in the folder and not the content.
    const fn is_name_change(&self) -> bool {
        match self {
            Self::Create | Self::Delete => true,
            Self::Write { .. } | Self::Truncate { .. } => false,
        }
    }

    /// Applies the change to a content; `None` stands for a missing file.
    fn apply(&self, content: &mut Option<Vec<u8>>) {
        match self {
            Self::Create => {
                content.get_or_insert_default();
            }
            Self::Delete => *content = None,
            Self::Truncate { length } => content.get_or_insert_default().resize(*length, 0),
            Self::Write { offset, bytes } => write_at(content.get_or_insert_default(), *offset, bytes),
        }
    }
}

impl SimulatedFile {
    /// Returns a file with a content that is durable; `None` for a file that does not exist.
    pub(crate) const fn new(durable: Option<Vec<u8>>) -> Self {
        Self { durable, unsynced: Vec::new() }
    }

    /// Records a change that was applied to the real file.
    pub(crate) fn record(&mut self, change: FileChange) {
        self.unsynced.push(change);
    }

    /// Makes all changes durable. Returns whether the file was created since the last sync.
    pub(crate) fn sync(&mut self) -> bool {
        let is_new = self.unsynced.contains(&FileChange::Create);
        for change in self.unsynced.drain(..) {
            change.apply(&mut self.durable);
        }
        is_new
    }

    /// Drops the changes of the content since the last sync: no later sync makes them durable. The entry in the folder is not
    /// affected.
    pub(crate) fn drop_unsynced(&mut self) {
        self.unsynced.retain(FileChange::is_name_change);
    }

    /// Makes the creation or deletion of the file durable, as a sync of its folder does. Changes of its content stay unsynced.
    pub(crate) fn sync_name(&mut self) {
        let Some(last) = self.unsynced.iter().rposition(FileChange::is_name_change) else { return };
        // Only a missing file is created, so earlier changes of the content are those of a deleted file.
        for change in self.unsynced.drain(..=last).filter(FileChange::is_name_change) {
            change.apply(&mut self.durable);
        }
    }

    /// Returns the content after a power loss that keeps only what was synced.
    pub(crate) fn into_synced(self) -> Option<Vec<u8>> {
        self.durable
    }

    /// Returns the content after a power loss that keeps any part of what was not synced.
    pub(crate) fn into_random(self, random: &mut SurvivalRandom) -> Option<Vec<u8>> {
        let mut content = self.durable;
        for change in &self.unsynced {
            match change {
                // Later changes are those of a file that the folder does not name.
                FileChange::Create | FileChange::Delete if random.below(2) == 0 => break,
                FileChange::Truncate { .. } if random.below(2) == 0 => {}
                FileChange::Create | FileChange::Delete | FileChange::Truncate { .. } => {
                    change.apply(&mut content);
                }
                FileChange::Write { offset, bytes } => {
                    keep_some(content.get_or_insert_default(), *offset, bytes, random);
                }
            }
        }
        content
    }
}

/// A deterministic source of the numbers that select what survives (SplitMix64).
pub(crate) struct SurvivalRandom(u64);

impl SurvivalRandom {
    /// Returns the source for a seed.
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number from 0 to `end`, without `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

/// Returns the length of the first half of a write, as far as a disk can divide it: up to a sector boundary.
pub(crate) const fn first_half(offset: usize, length: usize) -> usize {
    let middle = offset + length / 2;
    (middle - middle % SECTOR_BYTES).saturating_sub(offset)
}

/// Writes bytes into a content, which grows if necessary.
fn write_at(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(bytes);
}

/// Writes all of the bytes, none, or some of the sectors.
fn keep_some(content: &mut Vec<u8>, offset: usize, bytes: &[u8], random: &mut SurvivalRandom) {
    match random.below(5) {
        0 | 1 => {}
        2 | 3 => write_at(content, offset, bytes),
        _ => {
            let mut start = 0;
            while start < bytes.len() {
                let to_boundary = SECTOR_BYTES - (offset + start) % SECTOR_BYTES;
                let end = bytes.len().min(start + to_boundary);
                if random.below(2) == 0 {
                    write_at(content, offset + start, &bytes[start..end]);
                }
                start = end;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(offset: usize, bytes: &[u8]) -> FileChange {
        FileChange::Write { offset, bytes: bytes.to_vec() }
    }

    #[test]
    fn a_write_is_divided_at_a_sector_boundary() {
        for ((offset, length), expected) in [
            ((0, 4_096), 2_048),
            ((4_096, 4_096), 2_048),
            ((56, 4_096), 1_992),
            ((0, 32), 0),
            ((32, 24), 0),
            ((500, 100), 12),
            ((0, 512), 0),
        ] {
            assert_eq!(first_half(offset, length), expected, "{offset} {length}");
        }
    }

    #[test]
    fn only_synced_changes_survive() {
        let mut file = SimulatedFile::new(Some(b"old".to_vec()));
        file.record(write(2, b"de"));
        assert!(!file.sync());
        file.record(write(0, b"NEW"));
        file.record(FileChange::Truncate { length: 1 });
        assert_eq!(file.into_synced().as_deref(), Some(b"olde".as_slice()));
    }

    #[test]
    fn changes_of_a_failed_sync_never_become_durable() {
        let mut file = SimulatedFile::new(Some(b"....".to_vec()));
        file.record(write(0, b"ab"));
        file.drop_unsynced();
        file.record(write(2, b"cd"));
        file.sync();
        assert_eq!(file.into_synced().as_deref(), Some(b"..cd".as_slice()));
    }

    #[test]
    fn a_name_is_durable_after_a_sync_of_the_file_or_of_its_folder() {
        let mut created = SimulatedFile::new(None);
        created.record(FileChange::Create);
        created.record(write(0, b"new"));
        created.sync_name();
        assert_eq!(created.durable.as_deref(), Some(b"".as_slice()));
        assert!(!created.sync(), "its name was synced before");
        assert_eq!(created.into_synced().as_deref(), Some(b"new".as_slice()));
        let mut deleted = SimulatedFile::new(Some(b"old".to_vec()));
        deleted.record(write(0, b"OLD"));
        deleted.record(FileChange::Delete);
        assert_eq!(deleted.durable.as_deref(), Some(b"old".as_slice()));
        deleted.record(FileChange::Create);
        deleted.record(write(0, b"n"));
        assert!(deleted.sync());
        assert_eq!(deleted.into_synced().as_deref(), Some(b"n".as_slice()));
    }

    #[test]
    fn a_seed_determines_what_survives_and_seeds_differ() {
        let survivor = |seed| {
            let mut file = SimulatedFile::new(Some(vec![0; 8_192]));
            for number in 0..8 {
                file.record(write(number * 1_024, &[1; 1_024]));
            }
            file.into_random(&mut SurvivalRandom::new(seed)).unwrap()
        };
        let all: Vec<_> = (0..32).map(survivor).collect();
        assert!((0..32).map(survivor).eq(all.iter().cloned()));
        assert!(all.iter().any(|content| *content != all[0]));
        let sectors = all.iter().flat_map(|content| content.chunks(SECTOR_BYTES));
        assert!(sectors.clone().all(|sector| sector.iter().all(|byte| *byte == sector[0])));
        assert!(sectors.clone().any(|sector| sector[0] == 0) && sectors.clone().any(|sector| sector[0] == 1));
    }

    #[test]
    fn nothing_of_a_file_survives_whose_creation_did_not() {
        for seed in 0..64 {
            let mut file = SimulatedFile::new(Some(b"old".to_vec()));
            file.record(FileChange::Delete);
            file.record(FileChange::Create);
            file.record(write(0, b"new text"));
            let content = file.into_random(&mut SurvivalRandom::new(seed));
            let possible =
                [None, Some(b"old".as_slice()), Some(b"".as_slice()), Some(b"new text".as_slice())];
            assert!(possible.contains(&content.as_deref()), "{seed}: {content:?}");
        }
    }
}

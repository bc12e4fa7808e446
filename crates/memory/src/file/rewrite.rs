//! Replaces agent.md with the text that the user edited, unless that would undo a concurrent change. Conflicting
//! edits are never merged silently.

use crate::edit::count_secrets;
use crate::file::{AgentFile, AgentFileGuard, BlockIntent, FileAction};
use crate::managed_block;
use crate::{AGENT_MD_BYTES_MAX, Error, Result};

/// The outcome of an edit by the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewriteOutcome {
    /// The file holds the edited text. If the block was written concurrently, the newer block was kept.
    Replaced,
    /// The text is the one that was shown; the file was left alone.
    Unchanged,
    /// The edit changes the block, which only Segue writes; the file was left alone.
    BlockChanged,
    /// Another writer changed the notes in the meantime; the file was left alone.
    Conflict,
    /// The edited text contains more apparent secrets than the text that was shown; the file was left alone.
    NewSecrets {
        /// The number of additional secrets.
        count: u64,
    },
}

impl AgentFile {
    /// Replaces the file's text with `edited`, which the user made from `shown`. The block keeps its content on
    /// disk.
    ///
    /// # Errors
    /// When the file cannot be read or written, or `edited` is too large. The file is then unchanged.
    pub fn rewrite(&self, shown: &[u8], edited: &[u8]) -> Result<RewriteOutcome> {
        self.lock()?.rewrite(shown, edited)
    }
}

impl AgentFileGuard<'_> {
    /// Does the same as [`AgentFile::rewrite`].
    ///
    /// # Errors
    /// See there.
    pub fn rewrite(&mut self, shown: &[u8], edited: &[u8]) -> Result<RewriteOutcome> {
        if edited == shown {
            return Ok(RewriteOutcome::Unchanged);
        }
        if !managed_block::has_same_blocks(shown, edited) {
            return Ok(RewriteOutcome::BlockChanged);
        }
        let count = count_secrets(edited).saturating_sub(count_secrets(shown));
        if count > 0 {
            return Ok(RewriteOutcome::NewSecrets { count });
        }
        if edited.len() as u64 > AGENT_MD_BYTES_MAX {
            let bytes = edited.len() as u64;
            let path = self.file.path.clone();
            return Err(Error::TooLarge { path, bytes, bytes_max: AGENT_MD_BYTES_MAX });
        }
        self.replace(|current| {
            let old = current.unwrap_or_default();
            Ok(match merge_block(old, shown, edited) {
                Some(bytes) => FileAction::ReplaceFile {
                    bytes,
                    block: BlockIntent::KeepBlock,
                    report: RewriteOutcome::Replaced,
                },
                None => FileAction::KeepFile(RewriteOutcome::Conflict),
            })
        })
    }
}

/// Returns `edited` with the block of `old`. Returns `None` when `old` and `shown` also differ outside the block.
fn merge_block(old: &[u8], shown: &[u8], edited: &[u8]) -> Option<Vec<u8>> {
    if old == shown {
        return Some(edited.to_vec());
    }
    if managed_block::remove_blocks(old) != managed_block::remove_blocks(shown) {
        return None;
    }
    match managed_block::block_content(old) {
        Some(text) => managed_block::replace_block(edited, &text).ok(),
        None => Some(managed_block::remove_blocks(edited)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTES: &str = "# Notes\n\n## Recent Thread Snapshot\n<current_thread_summary>\nOf A.\n\
                         </current_thread_summary>\n\nUse tabs.\n";

    fn check(on_disk: &str, edited: &str) -> (RewriteOutcome, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.md");
        std::fs::write(&path, on_disk).unwrap();
        let done = AgentFile::new(&path).rewrite(NOTES.as_bytes(), edited.as_bytes()).unwrap();
        (done, std::fs::read_to_string(path).unwrap())
    }

    #[test]
    fn f4_an_edit_by_the_user_replaces_the_notes() {
        let edited = NOTES.replace("tabs", "blanks");
        assert_eq!(check(NOTES, &edited), (RewriteOutcome::Replaced, edited));
        assert_eq!(check(NOTES, NOTES), (RewriteOutcome::Unchanged, NOTES.to_owned()));
    }

    #[test]
    fn f4_an_edit_by_the_user_never_changes_the_block() {
        for edited in [
            NOTES.replace("Of A.", "Of B."),
            NOTES.replace("</current_thread_summary>\n", ""),
            NOTES.replace("Use tabs.", "<current_thread_summary>\nx\n</current_thread_summary>"),
            "Use tabs.\n".to_owned(),
        ] {
            assert_eq!(check(NOTES, &edited), (RewriteOutcome::BlockChanged, NOTES.to_owned()), "{edited}");
        }
    }

    #[test]
    fn f4_a_concurrently_written_block_stays() {
        let on_disk = NOTES.replace("Of A.", "Of another thread.");
        let (done, text) = check(&on_disk, &NOTES.replace("tabs", "blanks"));
        assert_eq!(done, RewriteOutcome::Replaced);
        assert_eq!(text, on_disk.replace("tabs", "blanks"));
    }

    #[test]
    fn f4_concurrently_added_notes_are_not_lost() {
        let on_disk = format!("{NOTES}Never on Fridays.\n");
        assert_eq!(check(&on_disk, &NOTES.replace("tabs", "blanks")), (RewriteOutcome::Conflict, on_disk));
    }

    #[test]
    fn m16_an_edit_that_adds_a_secret_is_refused() {
        let edited = format!("{NOTES}password: hunter2-and-more\n");
        assert_eq!(check(NOTES, &edited), (RewriteOutcome::NewSecrets { count: 1 }, NOTES.to_owned()));
    }
}

//! A person's own edit of agent.md, made in an editor on a text they were shown: it takes the place of the file unless
//! it would undo what others wrote meanwhile. Nothing of it is put together in silence.

use crate::block;
use crate::edit::secrets_in;
use crate::file::{AgentFile, Intent, Step};
use crate::{AGENT_MD_BYTES_MAX, Error, Result};

/// What became of a person's edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rewritten {
    /// The file holds it. When the block was written meanwhile, the block is that one.
    Done,
    /// It is what was shown; the file was left alone.
    Unchanged,
    /// It changes the block, which only Segue writes; the file was left alone.
    InBlock,
    /// The notes were changed by somebody else meanwhile; the file was left alone.
    Outrun,
    /// It holds more of what looks like secrets than what was shown; the file was left alone.
    Secrets {
        /// How many more.
        count: u64,
    },
}

impl AgentFile {
    /// Puts `edited`, made from `shown`, in the place of the file's text. The block stays as it is on disk.
    ///
    /// # Errors
    /// When the file cannot be read or written, or `edited` is too large; the file is as it was.
    pub fn rewrite(&self, shown: &[u8], edited: &[u8]) -> Result<Rewritten> {
        if edited == shown {
            return Ok(Rewritten::Unchanged);
        }
        if !block::is_same(shown, edited) {
            return Ok(Rewritten::InBlock);
        }
        let count = secrets_in(edited).saturating_sub(secrets_in(shown));
        if count > 0 {
            return Ok(Rewritten::Secrets { count });
        }
        if edited.len() as u64 > AGENT_MD_BYTES_MAX {
            return Err(Error::TooLarge { path: self.path.clone(), bytes_max: AGENT_MD_BYTES_MAX });
        }
        let mut holding = self.hold()?;
        self.replace_with(&mut holding, |found| {
            let old = found.unwrap_or_default();
            Ok(match with_block_of(old, shown, edited) {
                Some(bytes) => Step::Replace { bytes, block: Intent::Keep, report: Rewritten::Done },
                None => Step::Leave(Rewritten::Outrun),
            })
        })
    }
}

/// Returns `edited` with the block that `old` has; `None` when `old` differs from `shown` beside the block too.
fn with_block_of(old: &[u8], shown: &[u8], edited: &[u8]) -> Option<Vec<u8>> {
    if old == shown {
        return Some(edited.to_vec());
    }
    if block::without(old) != block::without(shown) {
        return None;
    }
    match block::current(old) {
        Some(text) => block::replace(edited, &text).ok(),
        None => Some(block::without(edited)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTES: &str = "# Notes\n\n## Recent Thread Snapshot\n<current_thread_summary>\nOf A.\n\
                         </current_thread_summary>\n\nUse tabs.\n";

    fn check(on_disk: &str, edited: &str) -> (Rewritten, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.md");
        std::fs::write(&path, on_disk).unwrap();
        let done = AgentFile::new(&path).rewrite(NOTES.as_bytes(), edited.as_bytes()).unwrap();
        (done, std::fs::read_to_string(path).unwrap())
    }

    #[test]
    fn f4_a_persons_edit_takes_the_place_of_the_notes() {
        let edited = NOTES.replace("tabs", "blanks");
        assert_eq!(check(NOTES, &edited), (Rewritten::Done, edited));
        assert_eq!(check(NOTES, NOTES), (Rewritten::Unchanged, NOTES.to_owned()));
    }

    #[test]
    fn f4_a_persons_edit_never_changes_the_block() {
        for edited in [
            NOTES.replace("Of A.", "Of B."),
            NOTES.replace("</current_thread_summary>\n", ""),
            NOTES.replace("Use tabs.", "<current_thread_summary>\nx\n</current_thread_summary>"),
            "Use tabs.\n".to_owned(),
        ] {
            assert_eq!(check(NOTES, &edited), (Rewritten::InBlock, NOTES.to_owned()), "{edited}");
        }
    }

    #[test]
    fn f4_a_block_that_was_written_meanwhile_stays() {
        let on_disk = NOTES.replace("Of A.", "Of another thread.");
        let (done, text) = check(&on_disk, &NOTES.replace("tabs", "blanks"));
        assert_eq!(done, Rewritten::Done);
        assert_eq!(text, on_disk.replace("tabs", "blanks"));
    }

    #[test]
    fn f4_what_others_noted_meanwhile_is_not_lost() {
        let on_disk = format!("{NOTES}Never on Fridays.\n");
        assert_eq!(check(&on_disk, &NOTES.replace("tabs", "blanks")), (Rewritten::Outrun, on_disk));
    }

    #[test]
    fn m16_a_secret_is_not_taken_into_agent_md() {
        let edited = format!("{NOTES}password: hunter2-and-more\n");
        assert_eq!(check(NOTES, &edited), (Rewritten::Secrets { count: 1 }, NOTES.to_owned()));
    }
}

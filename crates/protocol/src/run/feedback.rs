//! Feedback on a run: one person's thumb, and what they say about it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::{RunId, ThreadId};

/// A person's feedback on a run. There is at most one for each run and person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFeedback {
    /// The thread.
    pub thread_id: ThreadId,
    /// The run.
    pub run_id: RunId,
    /// The author. Without authentication there is one person, [`RunFeedback::LOCAL_USER`].
    pub user_id: String,
    /// The thumb.
    pub rating: Rating,
    /// The comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// When it was first given.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

impl RunFeedback {
    /// The one person where nobody signs in.
    pub const LOCAL_USER: &str = "local";
    /// Grapheme clusters of a comment.
    pub const COMMENT_GRAPHEMES_MAX: usize = 2_000;
}

/// A thumb: 1 or -1 on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "i8", try_from = "i8")]
pub enum Rating {
    /// 1.
    Up,
    /// -1.
    Down,
}

impl From<Rating> for i8 {
    fn from(rating: Rating) -> Self {
        match rating {
            Rating::Up => 1,
            Rating::Down => -1,
        }
    }
}

impl TryFrom<i8> for Rating {
    type Error = String;

    fn try_from(number: i8) -> Result<Self, String> {
        match number {
            1 => Ok(Self::Up),
            -1 => Ok(Self::Down),
            other => Err(format!("a rating is 1 or -1, not {other}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d1_a_rating_is_one_up_or_one_down() {
        for (json, rating) in [("1", Some(Rating::Up)), ("-1", Some(Rating::Down)), ("0", None), ("2", None)]
        {
            assert_eq!(serde_json::from_str(json).ok(), rating, "{json}");
        }
        assert_eq!(serde_json::to_string(&Rating::Down).unwrap(), "-1");
    }
}

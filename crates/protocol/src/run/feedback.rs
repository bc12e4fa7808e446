//! Feedback of a user on a run: a thumb up or down with an optional comment.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::{RunId, ThreadId};

/// The feedback of a user on a run. There is at most one for each run and user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFeedback {
    /// The thread of the run.
    pub thread_id: ThreadId,
    /// The rated run.
    pub run_id: RunId,
    /// The author. Without authentication it is [`RunFeedback::LOCAL_USER`].
    pub user_id: String,
    /// The rating.
    pub rating: Rating,
    /// The comment, at most [`RunFeedback::COMMENT_GRAPHEMES_MAX`] grapheme clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Time of the first rating.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

impl RunFeedback {
    /// The user id of all feedback if the server does not authenticate users.
    pub const LOCAL_USER: &str = "local";
    /// Maximum length of a comment in grapheme clusters.
    pub const COMMENT_GRAPHEMES_MAX: usize = 2_000;
}

/// A rating; its JSON form is 1 or -1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "i8", try_from = "i8")]
pub enum Rating {
    /// A thumb up (1).
    Up,
    /// A thumb down (-1).
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

//! The report about a handoff summary that was probed before its acceptance: questions that the next agent has to be able to
//! answer, and whether the summary answers them. The `handoff` crate asks and judges.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::event::Seq;
use crate::ids::HandoffId;
use crate::message::Usage;

/// The result of probing one proposal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContinuityReport {
    /// The handoff.
    pub handoff_id: HandoffId,
    /// The number of the probed proposal.
    pub iteration: u32,
    /// Lowercase hex SHA-256 of the probed text.
    pub summary_sha256: String,
    /// `provider/name` of the model that answered; `None` if the text itself was searched for the answers.
    pub model: Option<String>,
    /// Tokens used by all calls; zero without a model.
    pub usage: Usage,
    /// The questions with their answers. Empty if the conversation contains nothing to ask about.
    pub probes: Vec<ContinuityProbe>,
    /// The reason why a model could not answer, or did not judge every answer, in one line. If it could not answer, `model` is
    /// `None` and the text itself was searched; an answer that was not judged counts as wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Time of the report.
    pub created_at: Timestamp,
}

impl ContinuityReport {
    /// Returns the number of probes that passed.
    pub fn passed_count(&self) -> usize {
        self.probes.iter().filter(|probe| probe.passed).count()
    }

    /// Returns the feedback with which a refinement adds what the failed probes did not find; `None` if all passed.
    pub fn feedback(&self) -> Option<String> {
        let failed = self.probes.iter().filter(|probe| !probe.passed);
        let lines: Vec<String> =
            failed.map(|probe| format!("- {}: {}", probe.kind.label(), probe.expected)).collect();
        let intro = "The next agent cannot find the following in the summary. State each of them:";
        (!lines.is_empty()).then(|| format!("{intro}\n{}", lines.join("\n")))
    }
}

/// One question about the conversation, with the answer that was given from the summary alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContinuityProbe {
    /// The subject of the question.
    pub kind: ProbeKind,
    /// The question.
    pub question: String,
    /// The expected answer, from the conversation.
    pub expected: String,
    /// The event that contains the expected answer; `None` if no single event does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<Seq>,
    /// The answer: of the model, or the line of the summary that comes closest. `None` if there is none.
    pub answer: Option<String>,
    /// True if the answer agrees with the expected one.
    pub passed: bool,
    /// The judge that compared the answer with the expected one.
    pub judged_by: ProbeJudge,
}

/// The subject of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeKind {
    /// The user's last request.
    LastRequest,
    /// A task that is not done.
    OpenTask,
    /// A standing rule of the user.
    Rule,
    /// A file that the work changed or read last.
    File,
    /// A decision.
    Decision,
}

impl ProbeKind {
    /// Returns the name for people, in lowercase.
    pub const fn label(self) -> &'static str {
        match self {
            Self::LastRequest => "last request",
            Self::OpenTask => "open task",
            Self::Rule => "rule",
            Self::File => "file in use",
            Self::Decision => "decision",
        }
    }
}

/// The judge of an answer to a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeJudge {
    /// A comparison of names and words.
    Rules,
    /// The model.
    Model,
}

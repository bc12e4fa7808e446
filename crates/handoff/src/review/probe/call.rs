//! The model calls of a check: one for the answers to all questions, and one for the judgement of those that words leave
//! open.

use std::sync::Arc;

use memory::{InheritedSummary, NotesScope, build_prompt_section};
use model::{ChatModel, ChatRequest, untrusted_text};
use protocol::{Message, Usage};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::question::PlannedProbe;
use crate::draft::{DraftError, outermost_object, read_complete_answer};

/// The instructions for the answers.
pub(super) const ANSWER_INSTRUCTIONS: &str = include_str!("prompts/answer.md");
/// The instructions for the judgement.
pub(super) const JUDGE_INSTRUCTIONS: &str = include_str!("prompts/judge.md");
/// The output tokens of one call: for short answers, JSON syntax and some reasoning.
const OUTPUT_TOKENS_MAX: u64 = 4_000;

/// The model calls of one check.
pub(super) struct ProbeCalls<'a> {
    /// The model.
    pub(super) model: &'a Arc<dyn ChatModel>,
    /// Cancels the calls.
    pub(super) cancel: &'a CancellationToken,
}

// The shapes below are part of the JSON schema that the provider gets.

#[derive(Deserialize, JsonSchema)]
struct AnswerList {
    answers: Vec<NumberedAnswer>,
}

#[derive(Deserialize, JsonSchema)]
struct NumberedAnswer {
    number: usize,
    answer: String,
}

#[derive(Deserialize, JsonSchema)]
struct VerdictList {
    verdicts: Vec<NumberedVerdict>,
}

#[derive(Deserialize, JsonSchema)]
struct NumberedVerdict {
    number: usize,
    agrees: bool,
}

impl ProbeCalls<'_> {
    /// Returns the answer to each question, from the section of the system prompt with which the child thread begins.
    /// A question that the model leaves out has no answer.
    ///
    /// # Errors
    ///
    /// [`DraftError`]: the call failed or was stopped, or its answer is not the JSON that was asked for.
    pub(super) async fn answer(
        &self,
        package_md: &str,
        planned: &[PlannedProbe],
        usage: &mut Usage,
    ) -> Result<Vec<Option<String>>, DraftError> {
        let inherited = InheritedSummary { package_md: package_md.to_owned(), separate_facts: None };
        let section = build_prompt_section(
            &memory::AgentFileSnapshot::default(),
            &NotesScope::AllProjects,
            &[inherited],
        );
        let questions = planned.iter().enumerate();
        let questions: Vec<String> =
            questions.map(|(index, probe)| format!("{}. {}", index + 1, probe.question)).collect();
        let request = ChatRequest {
            system: vec![ANSWER_INSTRUCTIONS.to_owned(), section.text],
            messages: Arc::new(vec![Message::human(questions.join("\n"))]),
            max_output_tokens: Some(OUTPUT_TOKENS_MAX),
            answer_schema: Some(schemars::schema_for!(AnswerList).to_value()),
            ..ChatRequest::default()
        };
        let list: AnswerList = self.call(&request, usage).await?;
        let mut answers = vec![None; planned.len()];
        for NumberedAnswer { number, answer } in list.answers {
            if let Some(slot) = number.checked_sub(1).and_then(|index| answers.get_mut(index)) {
                let answer = facts::formatting::to_single_line(&secrets::redact(&answer));
                *slot = Some(answer).filter(|answer| !answer.is_empty());
            }
        }
        Ok(answers)
    }

    /// Returns for each pair of question and answer whether they agree.
    ///
    /// # Errors
    ///
    /// [`DraftError`]: the call failed or was stopped, or its answer is not the JSON that was asked for.
    pub(super) async fn judge(
        &self,
        pairs: &[(&PlannedProbe, &str)],
        usage: &mut Usage,
    ) -> Result<Vec<bool>, DraftError> {
        let blocks = pairs.iter().enumerate().map(|(index, (probe, answer))| {
            let neutral = |text: &str| untrusted_text::neutralize(text);
            let facts: Vec<String> =
                probe.answers.iter().map(|fact| format!("<fact>{}</fact>", neutral(fact))).collect();
            let any = if facts.len() > 1 { " Any one of the facts is enough." } else { "" };
            format!(
                "{}. {}{any}\n{}\n<answer>{}</answer>",
                index + 1,
                probe.question,
                facts.join("\n"),
                neutral(answer)
            )
        });
        let request = ChatRequest {
            system: vec![JUDGE_INSTRUCTIONS.to_owned()],
            messages: Arc::new(vec![Message::human(blocks.collect::<Vec<_>>().join("\n\n"))]),
            max_output_tokens: Some(OUTPUT_TOKENS_MAX),
            answer_schema: Some(schemars::schema_for!(VerdictList).to_value()),
            ..ChatRequest::default()
        };
        let list: VerdictList = self.call(&request, usage).await?;
        let mut agreed = vec![None; pairs.len()];
        for NumberedVerdict { number, agrees } in list.verdicts {
            if let Some(slot) = number.checked_sub(1).and_then(|index| agreed.get_mut(index)) {
                *slot = Some(agrees);
            }
        }
        let lacks_verdict =
            || DraftError::Unusable("the reply has no verdict for one of the answers".to_owned());
        agreed.into_iter().collect::<Option<Vec<bool>>>().ok_or_else(lacks_verdict)
    }

    /// Calls the model once and parses its answer, which may have text around the JSON object.
    async fn call<T: DeserializeOwned>(
        &self,
        request: &ChatRequest,
        usage: &mut Usage,
    ) -> Result<T, DraftError> {
        let answer = tokio::select! {
            answer = read_complete_answer(self.model, request) => answer?,
            () = self.cancel.cancelled() => return Err(DraftError::Stopped),
        };
        usage.add(answer.usage.unwrap_or_default());
        let text = Message::Ai(answer).text();
        serde_json::from_str(&text)
            .or_else(|_| serde_json::from_str(outermost_object(&text)))
            .map_err(|error| DraftError::Unusable(format!("it is not the JSON asked for: {error}")))
    }
}

/// Returns the hash of the instructions of both calls.
pub(super) fn prompt_sha256() -> String {
    protocol::sha256_hex(format!("{ANSWER_INSTRUCTIONS}\n{JUDGE_INSTRUCTIONS}"))
}

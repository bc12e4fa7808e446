// The texts of a review's notes. Pure.
import type { ConversationTopic, LeftOutFacts, LeftOutItem, ReviewNotes, Rule } from "../api/types";

/** The parts to add to a text, by their indexes in the notes. */
export type AddedParts =
  { left_out: number[] } | { topics: number[] } | { rules: number[] } | { facts: number[] };

const REASONS: Record<LeftOutItem["reason"], string> = {
  too_many: "Left out because the draft had too many items.",
  too_long: "Left out because the text would be too long.",
  shortened: "The text contains only its beginning; the whole would be too long.",
  inherited: "The package that this thread began with contains it.",
  last_answer: "The assistant's last answer, whole. The text contains less than half of it.",
};

/** Returns why the text does not contain an item of the draft. */
export function omissionReason(reason: LeftOutItem["reason"]): string {
  return REASONS[reason] ?? "Left out.";
}

/** Returns why the text does not contain entries of the facts. */
export function factOmission({ section, entries, reason }: LeftOutFacts): string {
  if (reason === "shortened") return `${section}. The text contains only its beginning.`;
  return `${section}: ${entries.length} more, which the text only counts.`;
}

/** Returns the text of the item that adding a topic puts into the summary. */
export function topicText({ item_text, request, answer }: ConversationTopic): string {
  return item_text || `Asked earlier: ${request}${answer ? `\nAnswered: ${answer}` : ""}`;
}

/** Returns the sentences about the removed references of an item. */
export function falseReferences(seqs: readonly number[] = []): string[] {
  return seqs.map((seq) => `Reference #${seq} was removed: there is no such message.`);
}

/** Returns the rules that the text no longer contains, with their indexes in the notes. */
export function lostRules({ rules = [] }: ReviewNotes): { rule: Rule; at: number }[] {
  return rules.flatMap(({ rule, problem }, at) => (problem.kind === "lost" ? [{ rule, at }] : []));
}

/** Returns the number of parts of the draft and of the conversation that the text lacks. */
export function omittedCount(notes: ReviewNotes): number {
  const { left_out = [], topics = [], left_out_facts = [] } = notes;
  return left_out.length + topics.length + lostRules(notes).length + left_out_facts.length;
}

/** Returns true if a text with these notes is accepted only after a warning. */
export function hasWarnings({ rules = [], names_by_user = [], done_task_claims = [] }: ReviewNotes): boolean {
  return rules.length + names_by_user.length + done_task_claims.length > 0;
}

/** Returns the rules that a line of the text may contradict. */
export function contradictions({ rules = [] }: ReviewNotes): { rule: Rule; line: string }[] {
  return rules.flatMap(({ rule, problem }) =>
    problem.kind === "contradicted" ? [{ rule, line: problem.line }] : [],
  );
}

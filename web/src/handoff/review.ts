// View logic of the handoff review. Pure: no requests and no rendering.
import type { HandoffReview, PendingHandoff, Proposal, SummaryItem, SummaryKind } from "../api/types";
import { formatCount } from "../ui/format";

/** The kinds of items in the order of the summary. */
export const SUMMARY_KINDS: { kind: SummaryKind; singular: string; heading: string }[] = [
  { kind: "objective", singular: "Objective", heading: "Objective" },
  { kind: "progress", singular: "Progress", heading: "Progress" },
  { kind: "decision", singular: "Decision", heading: "Decisions" },
  { kind: "next_step", singular: "Next step", heading: "Next steps" },
  { kind: "blocker", singular: "Blocker", heading: "Blockers" },
  { kind: "artifact", singular: "Artifact", heading: "Artifacts" },
];

/** The `model` of a summary that a person wrote. */
const USER_MODEL = "user";

/** Groups items by kind; empty kinds are left out. */
export function groupItems(body: readonly SummaryItem[]): { heading: string; items: SummaryItem[] }[] {
  return SUMMARY_KINDS.map(({ kind, heading }) => ({
    heading,
    items: body.filter((item) => item.kind === kind),
  })).filter(({ items }) => items.length > 0);
}

/** Returns the display name of an iteration, which counts from 0. */
export function draftName(iteration: number): string {
  return `Draft ${iteration + 1}`;
}

/** Returns true if a person wrote the proposal. */
export function isUserWritten(proposal: Proposal): boolean {
  return proposal.summary_json.model === USER_MODEL;
}

/** Returns the first iteration with the same text if this proposal reverts to it, or null. */
export function earlierDuplicate(proposal: Proposal, proposals: readonly Proposal[]): number | null {
  const first = proposals.find((other) => other.summary_sha256 === proposal.summary_sha256);
  return first && first.iteration < proposal.iteration ? first.iteration : null;
}

/** Returns the newest proposal with the accepted text. */
export function acceptedProposal(review: HandoffReview): Proposal | null {
  const sha = review.handoff.accepted_sha256;
  return (sha && review.proposals.findLast((proposal) => proposal.summary_sha256 === sha)) || null;
}

/** A segment of a line: code, an identifier that was not found in the messages, or plain text. */
export interface SummarySegment {
  text: string;
  code: boolean;
  unfound: boolean;
}

/** Splits a line at code spans and unverified identifiers. */
export function splitLine(line: string, unfound: readonly string[] = []): SummarySegment[] {
  return line
    .split(/(`[^`]+`)/)
    .filter(Boolean)
    .flatMap((part) => {
      const code = part.length > 2 && part.startsWith("`") && part.endsWith("`");
      return splitAt(code ? part.slice(1, -1) : part, unfound).map((piece) => ({ ...piece, code }));
    });
}

function splitAt(text: string, identifiers: readonly string[]): { text: string; unfound: boolean }[] {
  const [name, ...others] = identifiers;
  if (name === undefined) return text ? [{ text, unfound: false }] : [];
  if (name === "") return splitAt(text, others);
  return text.split(name).flatMap((between, at) => {
    const rest = splitAt(between, others);
    return at === 0 ? rest : [{ text: name, unfound: true }, ...rest];
  });
}

/** A line of an item: a task with its state, or plain text. */
export interface ItemLine {
  text: string;
  task: "open" | "done" | null;
}

/** Returns the lines of an item. Check boxes are removed from the text. */
export function itemLines(text: string): ItemLine[] {
  return text
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => {
      if (line.startsWith("[ ] ")) return { text: line.slice(4), task: "open" };
      if (line.startsWith("[x] ")) return { text: line.slice(4), task: "done" };
      return { text: line, task: null };
    });
}

/**
 * Returns the references of each line of an item. The last line has those whose line is not known. The end of the text
 * may have been cut.
 */
export function lineRefs({ text, refs, line_refs = [] }: SummaryItem): number[][] {
  const count = itemLines(text).length;
  const known = count <= line_refs.length ? line_refs : [];
  const lines = Array.from({ length: count }, (_, at) =>
    (known[at] ?? []).filter((seq) => refs.includes(seq)),
  );
  const placed = new Set(lines.flat());
  lines.at(-1)?.push(...refs.filter((seq) => !placed.has(seq)));
  return lines;
}

/** Returns the sentence about the messages that the newest draft does not cover. */
export function uncoveredText(count: number): string {
  return `The draft does not cover ${formatCount(count, "newer message")}.`;
}

/** The arguments of the edit that drafts again so that the newer messages are covered too. */
export const COVER_NEWER = { redraft: true } as const;

/**
 * Returns true if a draft can be requested that covers the newer messages. That is possible also at the limit of
 * refinements and without a model, when `edit` is not among the allowed decisions.
 */
export function canCoverNewer(pending: PendingHandoff | null, shown: Proposal | null): boolean {
  return (
    pending !== null && pending.uncovered_messages > 0 && shown?.iteration === pending.proposal.iteration
  );
}

/** The relevant change on the server since the review was loaded. */
export type ReviewChange = "none" | "count" | "decided" | "drafting" | "newer";

/**
 * Compares the shown review with the current one. A shown text must never be replaced silently, so that
 * people accept only what they have seen.
 */
export function compareReviews(shown: HandoffReview, next: HandoffReview): ReviewChange {
  if (shown.handoff.outcome !== "pending") return "none";
  if (next.handoff.outcome !== "pending") return "decided";
  if (!next.pending) return shown.pending ? "drafting" : "none";
  if (next.pending.interrupt.id !== shown.pending?.interrupt.id) return "newer";
  return next.pending.uncovered_messages === shown.pending.uncovered_messages ? "none" : "count";
}

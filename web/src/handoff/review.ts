// What a handoff's review shows, worked out from what the server tells. Pure: no requests, nothing of the screen.
import type { HandoffReview, Proposal, SummaryItem, SummaryKind } from "../api/types";

/** The kinds of items, in the order of every summary. */
export const KINDS: { kind: SummaryKind; one: string; heading: string }[] = [
  { kind: "objective", one: "Objective", heading: "Objective" },
  { kind: "progress", one: "Progress", heading: "Progress" },
  { kind: "decision", one: "Decision", heading: "Decisions" },
  { kind: "next_step", one: "Next step", heading: "Next steps" },
  { kind: "blocker", one: "Blocker", heading: "Blockers" },
  { kind: "artifact", one: "Artifact", heading: "Artifacts" },
];

/** Who a summary is by when a person wrote it, in the place of a model. */
const BY_A_PERSON = "user";

/** Items under their headings; kinds without items have none. */
export function grouped(body: readonly SummaryItem[]): { heading: string; items: SummaryItem[] }[] {
  return KINDS.map(({ kind, heading }) => ({
    heading,
    items: body.filter((item) => item.kind === kind),
  })).filter(({ items }) => items.length > 0);
}

/** How people call an iteration, which counts from 0. */
export function draftName(iteration: number): string {
  return `Draft ${iteration + 1}`;
}

/** Whether a person wrote it. */
export function isOwnText(proposal: Proposal): boolean {
  return proposal.summary_json.model === BY_A_PERSON;
}

/** The first iteration with the same text, where that is another one: one went back to it. */
export function sameAs(proposal: Proposal, proposals: readonly Proposal[]): number | null {
  const first = proposals.find((other) => other.summary_sha256 === proposal.summary_sha256);
  return first && first.iteration < proposal.iteration ? first.iteration : null;
}

/** The proposal that was accepted: the newest with the accepted text. */
export function acceptedOf(review: HandoffReview): Proposal | null {
  const sha = review.handoff.accepted_sha256;
  return (sha && review.proposals.findLast((proposal) => proposal.summary_sha256 === sha)) || null;
}

/** A part of a text: of an identifier that was not found in the messages, of code, or plain. */
export interface Piece {
  text: string;
  code: boolean;
  unfound: boolean;
}

/** Cuts a line at its code spans and at what was not found. */
export function pieces(line: string, unfound: readonly string[] = []): Piece[] {
  return line
    .split(/(`[^`]+`)/)
    .filter(Boolean)
    .flatMap((part) => {
      const code = part.length > 2 && part.startsWith("`") && part.endsWith("`");
      return cutAt(code ? part.slice(1, -1) : part, unfound).map((piece) => ({ ...piece, code }));
    });
}

function cutAt(text: string, names: readonly string[]): { text: string; unfound: boolean }[] {
  const [name, ...others] = names;
  if (name === undefined) return text ? [{ text, unfound: false }] : [];
  if (name === "") return cutAt(text, others);
  return text.split(name).flatMap((between, at) => {
    const rest = cutAt(between, others);
    return at === 0 ? rest : [{ text: name, unfound: true }, ...rest];
  });
}

/** A line of an item: a task with its box, or plain. */
export interface Line {
  text: string;
  task: "open" | "done" | null;
}

/** The lines of an item; the box of a task is not part of its text. */
export function linesOf(text: string): Line[] {
  return text
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => {
      if (line.startsWith("[ ] ")) return { text: line.slice(4), task: "open" };
      if (line.startsWith("[x] ")) return { text: line.slice(4), task: "done" };
      return { text: line, task: null };
    });
}

/** How the messages of a thread reached a draft. The counts are the ledger's own. */
export function reached(coverage: Proposal["coverage"]): { name: string; does: string; count: number }[] {
  return [
    { name: "verbatim", does: "read word for word", count: coverage.verbatim },
    { name: "summarized", does: "read as one line each", count: coverage.summarized },
    { name: "truncated", does: "read in part", count: coverage.truncated },
    { name: "excluded", does: "not read", count: coverage.excluded },
  ];
}

/** What changed on the server since it was shown, as far as the person who reviews must know. */
export type Change = "none" | "count" | "decided" | "drafting" | "newer";

/** Compares what is shown with what there is now. Nothing may take the place of a shown text unnoticed: what is accepted is what was seen. */
export function changed(shown: HandoffReview, now: HandoffReview): Change {
  if (shown.handoff.outcome !== "pending") return "none";
  if (now.handoff.outcome !== "pending") return "decided";
  if (!now.pending) return shown.pending ? "drafting" : "none";
  if (now.pending.interrupt.id !== shown.pending?.interrupt.id) return "newer";
  return now.pending.uncovered_messages === shown.pending.uncovered_messages ? "none" : "count";
}

// The choice about the tool calls that wait for approval when a handoff is accepted. Pure.
import { formatCount } from "../ui/format";
import type { Decision, Proposal } from "../api/types";

/** The value of `pending_approvals` in an accept. */
export type WaitingCalls = "transfer" | "cancel" | "leave" | "copy";

/** The choices in the order in which they are offered. The first one is the default of the page. */
export const WAITING_CALLS: { choice: WaitingCalls; label: string }[] = [
  { choice: "transfer", label: "Move to the new thread, which asks anew" },
  { choice: "cancel", label: "Cancel" },
  { choice: "leave", label: "Leave in this thread" },
  { choice: "copy", label: "Ask in both threads" },
];

/** Returns the calls that the text lists as waiting for approval. */
export function waitingCalls(proposal: Proposal): readonly string[] {
  return proposal.summary_json.carried?.pending_approvals ?? [];
}

/** Returns the label of the choice. */
export function waitingCallsLabel(count: number): string {
  return `${formatCount(count, "call")} ${count === 1 ? "waits" : "wait"} for approval:`;
}

/** Adds the choice to a decision that accepts a text. */
export function withWaitingCalls(decision: Decision, choice: WaitingCalls): Decision {
  if (decision.type === "approve")
    return { ...decision, args: { ...decision.args, pending_approvals: choice } };
  if (decision.type !== "edit") return decision;
  const { name, args } = decision.edited_action;
  return { type: "edit", edited_action: { name, args: { ...args, pending_approvals: choice } } };
}

// Classifies the pending questions of a thread.
import type { Interrupt, ThreadDetail } from "../api/types";

/** Returns true if the question is about a handoff. */
export function isHandoffQuestion({ value }: Interrupt): boolean {
  return value.middleware_source === "HandoffApprovalMiddleware";
}

/** Returns the kind of the pending questions. A message cancels questions about calls. */
export function pendingQuestionKind(interrupts: Interrupt[]): "call" | "handoff" | null {
  if (interrupts.length === 0) return null;
  return interrupts.every(isHandoffQuestion) ? "handoff" : "call";
}

/** Returns the state of the thread's handoff: it is being drafted until there is a question about it. */
export function handoffState({
  pending_handoff_id,
  interrupts,
}: ThreadDetail): "none" | "drafting" | "pending" {
  if (!pending_handoff_id) return "none";
  return interrupts.some(isHandoffQuestion) ? "pending" : "drafting";
}

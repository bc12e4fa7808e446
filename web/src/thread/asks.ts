// What the questions of a thread are about.
import type { Interrupt } from "../api/types";

/** Returns whether a question is about a handoff's draft. */
export function isOfHandoff({ value }: Interrupt): boolean {
  return value.middleware_source === "HandoffApprovalMiddleware";
}

/** Returns what a message does to the questions: it cancels those about calls, if any. */
export function asksFor(interrupts: Interrupt[]): "call" | "handoff" | null {
  if (interrupts.length === 0) return null;
  return interrupts.every(isOfHandoff) ? "handoff" : "call";
}

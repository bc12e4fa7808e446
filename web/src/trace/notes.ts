// How events that take no time are called in a trace. One that a later version writes is shown by its own name.
import type { JournalEvent } from "../api/types";
import { text } from "./read";

interface Note {
  label: string;
  detail: string;
  state?: "done" | "failed";
  message?: number | null;
  handoff?: string | null;
  thread?: string | null;
}

const LABELS: Record<string, string> = {
  run_stop_requested: "Stop asked for",
  thread_created: "Thread created",
  thread_renamed: "Thread renamed",
  thread_rewound: "Thread taken back",
  compaction_undone: "Condensing taken back",
  compaction_failed: "Condensing failed",
  tool_result_clipped: "Result clipped for the model",
  turns_archived: "Turns put into memory",
  turns_restored: "Turns back in the context",
  handoff_requested: "Handoff asked for",
  handoff_proposed: "Handoff proposed",
  handoff_refined: "Handoff refined",
  handoff_reverted: "Handoff back at an earlier proposal",
  handoff_truncated: "Handoff summary shortened",
  handoff_accepted: "Handoff accepted",
  handoff_declined: "Handoff declined",
  handoff_previewed: "Handoff previewed",
  handoff_failed: "Handoff failed",
  handoff_expired: "Handoff expired",
  handoff_seeded: "Child seeded",
  handoff_cleaned: "Handoff block cleared",
  handoff_mirrored: "Summary mirrored",
};
/** What a note tells, the first of these that is there. */
const DETAILS = ["reason", "feedback", "message", "goal", "name", "error"] as const;

/** Names a moment of a run. */
export function noteOf({ event_type, content }: JournalEvent): Note {
  const label = LABELS[event_type] ?? event_type.replaceAll("_", " ");
  const iteration = typeof content.iteration === "number" ? `draft ${content.iteration + 1}` : "";
  const told = DETAILS.map((name) => text(content[name])).find(Boolean) ?? "";
  return {
    label,
    detail: [iteration, told].filter(Boolean).join(" · "),
    state: event_type.endsWith("_failed") || text(content.error) ? "failed" : "done",
    handoff: text(content.handoff_id) || null,
    thread: text(content.child_thread_id) || null,
  };
}

// Labels for events without a duration. Unknown events are shown by their type.
import type { JournalEvent } from "../api/types";
import { asText } from "./eventFields";

interface TraceNote {
  label: string;
  detail: string;
  state?: "done" | "failed";
  message?: number | null;
  handoff?: string | null;
  thread?: string | null;
}

const EVENT_LABELS: Record<string, string> = {
  run_stop_requested: "Stop requested",
  thread_created: "Thread created",
  thread_renamed: "Thread renamed",
  thread_rewound: "Thread rewound",
  pins_changed: "Pins changed",
  compaction_undone: "Compaction undone",
  compaction_failed: "Compaction failed",
  tool_result_clipped: "Result clipped for the model",
  turns_archived: "Messages summarized",
  turns_restored: "Messages restored to the context",
  handoff_requested: "Handoff requested",
  handoff_proposed: "Handoff proposed",
  handoff_refined: "Handoff refined",
  handoff_edited: "Handoff edited",
  handoff_reverted: "Handoff reverted",
  handoff_truncated: "Handoff summary shortened",
  handoff_accepted: "Handoff accepted",
  handoff_merged: "Handoff merged into this thread",
  handoff_declined: "Handoff declined",
  handoff_previewed: "Handoff previewed",
  handoff_failed: "Handoff failed",
  handoff_expired: "Handoff expired",
  handoff_seeded: "Child seeded",
  handoff_cleaned: "Handoff block cleared",
  handoff_mirrored: "Summary exported",
};
/** The fields that describe an event; the first one present is shown. */
const DETAIL_FIELDS = ["reason", "feedback", "message", "goal", "name", "error"] as const;

/** Returns the label and the details of an event. */
export function noteOf({ event_type, content }: JournalEvent): TraceNote {
  const label = EVENT_LABELS[event_type] ?? event_type.replaceAll("_", " ");
  const iteration = typeof content.iteration === "number" ? `draft ${content.iteration + 1}` : "";
  const detail = DETAIL_FIELDS.map((name) => asText(content[name])).find(Boolean) ?? "";
  return {
    label,
    detail: [iteration, detail].filter(Boolean).join(" · "),
    state: event_type.endsWith("_failed") || asText(content.error) ? "failed" : "done",
    handoff: asText(content.handoff_id) || null,
    thread: asText(content.child_thread_id) || null,
  };
}

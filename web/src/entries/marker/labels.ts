// Labels for compactions and archived messages.

import type { AuditEntry } from "../../api/types";
import type { IconName } from "../../ui/icons";

/** The reasons for a compaction. */
export const TRIGGER_LABELS: Record<string, string> = {
  auto: "context limit",
  manual: "on request",
  overflow: "context overflow",
};

/** The reasons for summarizing old messages. */
export const ARCHIVE_REASON_LABELS: Record<string, string> = {
  budget: "over budget",
  request: "on request",
};

/** Returns the icon of an audit entry. */
export function auditIcon(type: AuditEntry["type"]): IconName {
  switch (type) {
    case "run_failed":
    case "handoff_failed":
      return "error";
    case "tool_call_decided":
      return "tool";
    case "thread_renamed":
      return "edit";
    case "thread_rewound":
      return "undo";
    case "pins_changed":
      return "pin";
    default:
      return "handoff";
  }
}

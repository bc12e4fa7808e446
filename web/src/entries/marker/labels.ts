// Labels for compactions and archived messages.

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

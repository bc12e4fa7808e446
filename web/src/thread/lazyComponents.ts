// Components and actions of the thread page that are rarely needed. Each is loaded lazily as a chunk of its own.
export const lazyComponents = {
  questions: () => import("./PendingQuestions.svelte"),
  handoff: () => import("../handoff/HandoffDialog.svelte"),
  staleLines: () => import("../handoff/StaleLines.svelte"),
  summary: () => import("../handoff/ProposalSummary.svelte"),
  call: () => import("../entries/call/CallDetails.svelte"),
  context: () => import("./ContextDialog.svelte"),
  pins: () => import("./PinPanel.svelte"),
  pinActions: () => import("./pinActions"),
  rewind: () => import("../entries/message/RewindDialog.svelte"),
  compact: () => import("./CompactDialog.svelte"),
};

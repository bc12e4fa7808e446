// The parts of a thread's page that few looks at it need: each is a file of its own, fetched when it is.
export const later = {
  questions: () => import("./Questions.svelte"),
  handoff: () => import("../handoff/StartHandoff.svelte"),
  call: () => import("../entries/call/Opened.svelte"),
  compact: () => import("./CompactDialog.svelte"),
};

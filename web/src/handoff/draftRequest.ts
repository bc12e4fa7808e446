// Requests a draft of a handoff and opens its review, and cancels a draft in progress. The dialog, the thread page
// and the cards of imported threads share it.
import { ApiError } from "../api/client";
import { api } from "../api/endpoints";
import { notifyError, notify } from "../app/notices.svelte";
import { navigate, paths } from "../app/router.svelte";
import { refreshSession } from "../app/session.svelte";
import { refreshLists } from "../threads/listState.svelte";

/** Threads whose draft was cancelled on this page, so the failure of its request is expected. */
const cancelledThreads = new Set<string>();

/** The result of a request: `dropped` if the draft was cancelled, or failed while nobody watched it. */
export type DraftResult = "drafted" | "dropped" | ApiError;

/**
 * Requests a draft. When it is ready, its review is opened if `isWatched` returns true, and offered in a notice
 * otherwise. An error is returned if the request is watched, and shown in a notice otherwise.
 */
export async function requestDraft(
  thread: string,
  options: Parameters<typeof api.createHandoff>[1],
  isWatched: () => boolean,
): Promise<DraftResult> {
  cancelledThreads.delete(thread);
  try {
    const { handoff } = await api.createHandoff(thread, options);
    const openReview = () => navigate(paths.handoff(handoff.handoff_id));
    if (isWatched()) openReview();
    else notify("The handoff is ready for review.", { action: { label: "Review", run: openReview } });
    return "drafted";
  } catch (error) {
    if (cancelledThreads.has(thread)) return "dropped";
    if (isWatched() && error instanceof ApiError) return error;
    notifyError("Could not draft the handoff", error);
    return "dropped";
  } finally {
    refreshLists();
    void refreshSession();
  }
}

/** Cancels the run that drafts a handoff of the thread. A draft that has not started yet is not cancelled. */
export async function cancelDraft(thread: string): Promise<void> {
  try {
    const { active_run, pending_handoff_id } = await api.thread(thread);
    // Without a handoff, the active run is a turn in front of the draft.
    if (!active_run || !pending_handoff_id) return;
    cancelledThreads.add(thread);
    await api.cancel(thread, active_run.run_id);
  } catch (error) {
    cancelledThreads.delete(thread);
    // The draft is ready already.
    if (!(error instanceof ApiError && error.status === 409))
      notifyError("Could not cancel the draft", error);
  }
}

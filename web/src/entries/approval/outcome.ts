// Waits for the outcome of an answer. The request is accepted before the resumed run reads the answer, so
// only the run's events tell whether it counted.
import { api } from "../../api/endpoints";
import { refusalReason } from "./reason";

const POLL_MS = 400;

/**
 * Returns the reason why the answer was refused. Returns null if it was accepted or `isCancelled` returns
 * true.
 */
export async function waitForRefusal(
  thread: string,
  run: string,
  isCancelled: () => boolean,
): Promise<string | null> {
  for (;;) {
    const { status } = await api.getRun(thread, run);
    if (isCancelled() || status === "running") return null;
    if (status !== "pending") return refusalReason((await api.runEvents(thread, run)).events);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

// Whether an answer was taken. The request is answered before the run that carries it looks at it; what that run says is the truth.
import { api } from "../../api/endpoints";
import { reason } from "./reason";

const LOOK_MS = 400;

/** Returns why the answer did not count; null when it did, or when the panel that asked is gone. */
export async function refused(thread: string, run: string, gone: () => boolean): Promise<string | null> {
  for (;;) {
    const { status } = await api.runOf(thread, run);
    if (gone() || status === "running") return null;
    if (status !== "pending") return reason((await api.runEvents(thread, run)).events);
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

// Global state: the sign-in, the agent, the connection to the server, and pending handoffs and questions.
import { ApiError, storeToken, onUnauthorized, setToken } from "../api/client";
import { api } from "../api/endpoints";
import type { AgentInfo, ListedHandoff } from "../api/types";
import { onToken } from "./router.svelte";

/** Milliseconds between two requests for pending items while the page is visible. */
const POLL_MS = 5_000;

export const session = $state<{
  /** `connecting` until the first response; `signed-out` if the server requires a token. */
  state: "connecting" | "signed-out" | "signed-in";
  /** The reason why the last token was not accepted. */
  problem: string | null;
  agent: AgentInfo | null;
  /** True if the last request reached the server. */
  online: boolean;
  pending: ListedHandoff[];
  /** The number of threads that wait for a decision on a handoff or for an approval. */
  waiting: number;
}>({ state: "connecting", problem: null, agent: null, online: true, pending: [], waiting: 0 });

let timer: ReturnType<typeof setTimeout> | undefined;

onUnauthorized((hasToken) => {
  session.state = "signed-out";
  session.problem = hasToken ? "Invalid token or key." : null;
});
onToken(() => void connect());

/** Connects to the server and starts polling for pending items. */
export async function connect(): Promise<void> {
  clearTimeout(timer);
  try {
    session.agent = await api.agent();
    storeToken();
    session.state = "signed-in";
    session.problem = null;
    session.online = true;
    await refreshSession();
  } catch (error) {
    session.online = isReachable(error);
    if (session.state !== "signed-out") timer = setTimeout(() => void connect(), POLL_MS);
    else if (error instanceof ApiError && error.status !== 401) session.problem = error.message;
  }
}

/** Signs in with the given token. The sign-in page stays until the server accepts it. */
export async function signIn(secret: string): Promise<void> {
  session.problem = null;
  setToken(secret);
  await connect();
}

const isReachable = (error: unknown) => !(error instanceof ApiError && error.status === 0);

/** Refreshes the pending items immediately. Call it after every change that affects them. */
export async function refreshSession(): Promise<void> {
  clearTimeout(timer);
  try {
    // Hidden pages send no requests, so `online` keeps its value.
    if (document.visibilityState === "visible") {
      await fetchPending();
      session.online = true;
    }
  } catch (error) {
    session.online = isReachable(error);
  }
  if (session.state !== "signed-out") timer = setTimeout(() => void refreshSession(), POLL_MS);
}

document.addEventListener("visibilitychange", () => {
  if (session.state === "signed-in" && document.visibilityState === "visible") void refreshSession();
});

async function fetchPending(): Promise<void> {
  const [{ handoffs }, { total }] = await Promise.all([
    api.handoffs(),
    api.threads({ state: "needs_you", limit: 1 }),
  ]);
  session.pending = handoffs;
  session.waiting = total;
}

/** Returns a document title, prefixed with the number of waiting threads. */
export function pageTitle(title: string): string {
  return session.waiting > 0 ? `(${session.waiting}) ${title}` : title;
}

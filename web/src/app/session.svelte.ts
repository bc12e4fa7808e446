// What the whole page knows: whether it was let in, who answers, whether the server is there, what waits for a person.
import { ApiError, keepToken, onRefused, showToken } from "../api/client";
import { api } from "../api/endpoints";
import type { AgentInfo, ListedHandoff } from "../api/types";
import { onToken } from "./router.svelte";

/** Milliseconds between looks at what waits for a person; none while nobody looks at the page. */
const LOOK_EVERY_MS = 5_000;

export const session = $state<{
  /** `asking` until the server has answered once; `refused` when it wants a token. */
  state: "asking" | "refused" | "in";
  /** Why the last secret did not let us in. */
  problem: string | null;
  agent: AgentInfo | null;
  /** Whether the last request reached the server. */
  online: boolean;
  pending: ListedHandoff[];
  /** How many threads wait for a person: for a handoff's decision or for an approval. */
  waiting: number;
}>({ state: "asking", problem: null, agent: null, online: true, pending: [], waiting: 0 });

let timer: ReturnType<typeof setTimeout> | undefined;

onRefused((isShown) => {
  session.state = "refused";
  session.problem = isShown ? "This token or key was not accepted." : null;
});
onToken(() => void enter());

/** Looks whether the server lets us in, and from then on what waits. */
export async function enter(): Promise<void> {
  clearTimeout(timer);
  try {
    session.agent = await api.agent();
    keepToken();
    session.state = "in";
    session.problem = null;
    session.online = true;
    await look();
  } catch (error) {
    session.online = isThere(error);
    if (session.state !== "refused") timer = setTimeout(() => void enter(), LOOK_EVERY_MS);
    else if (error instanceof ApiError && error.status !== 401) session.problem = error.message;
  }
}

/** Enters with a secret that a person typed; until the server takes it, nothing but the sign-in is there. */
export async function enterWith(secret: string): Promise<void> {
  session.problem = null;
  showToken(secret);
  await enter();
}

const isThere = (error: unknown) => !(error instanceof ApiError && error.status === 0);

/** Looks at once; whoever changed something calls it. */
export async function look(): Promise<void> {
  clearTimeout(timer);
  try {
    // Nobody looks: nothing is asked, and nothing is learnt about the server.
    if (document.visibilityState === "visible") {
      await lookOnce();
      session.online = true;
    }
  } catch (error) {
    session.online = isThere(error);
  }
  if (session.state !== "refused") timer = setTimeout(() => void look(), LOOK_EVERY_MS);
}

document.addEventListener("visibilitychange", () => {
  if (session.state === "in" && document.visibilityState === "visible") void look();
});

async function lookOnce(): Promise<void> {
  const [{ handoffs }, { total }] = await Promise.all([
    api.handoffs(),
    api.threads({ state: "needs_you", limit: 1 }),
  ]);
  session.pending = handoffs;
  session.waiting = total;
}

/** The title of a place, which says how many threads wait wherever one is. */
export function titled(place: string): string {
  return session.waiting > 0 ? `(${session.waiting}) ${place}` : place;
}

// Where in the page one is, as the address says behind the `#`. What is drawn there is App's.
import { showToken } from "../api/client";

export type Route =
  | { page: "home" }
  | { page: "thread"; thread: string; at: number | null }
  | { page: "lineage"; thread: string }
  | { page: "trace"; thread: string; run: string }
  | { page: "handoffs" }
  | { page: "handoff"; handoff: string }
  | { page: "search"; q: string; thread: string | null }
  | { page: "memory"; summary: string | null }
  | { page: "unknown" };

/** The addresses of the page's places. */
export const to = {
  home: () => "#/",
  thread: (id: string, at?: number) => `#/threads/${id}${at === undefined ? "" : `?at=${at}`}`,
  lineage: (id: string) => `#/threads/${id}/lineage`,
  trace: (id: string, run: string) => `#/threads/${id}/runs/${run}`,
  handoffs: () => "#/handoffs",
  handoff: (id: string) => `#/handoffs/${id}`,
  search: (q = "", thread?: string) => {
    const query = new URLSearchParams({ ...(q && { q }), ...(thread && { thread }) }).toString();
    return `#/search${query ? `?${query}` : ""}`;
  },
  memory: (summary?: string) => `#/memory${summary ? `?summary=${encodeURIComponent(summary)}` : ""}`,
};

/** Reads an address. */
export function parse(hash: string): Route {
  const [path = "", search = ""] = hash.replace(/^#/, "").split("?", 2);
  const query = new URLSearchParams(search);
  const parts = path.split("/").filter(Boolean);
  const [first, second, third, fourth] = parts;
  if (parts.length === 0) return { page: "home" };
  if (first === "threads" && second && parts.length === 2) {
    const at = Number(query.get("at"));
    return { page: "thread", thread: second, at: Number.isInteger(at) && at > 0 ? at : null };
  }
  if (first === "threads" && second && third === "lineage") return { page: "lineage", thread: second };
  if (first === "threads" && second && third === "runs" && fourth)
    return { page: "trace", thread: second, run: fourth };
  if (first === "handoffs") return second ? { page: "handoff", handoff: second } : { page: "handoffs" };
  if (first === "search") return { page: "search", q: query.get("q") ?? "", thread: query.get("thread") };
  if (first === "memory") return { page: "memory", summary: query.get("summary") };
  return { page: "unknown" };
}

let whenTaken: () => void = () => undefined;

/** Says what happens when an address with a token is opened where the page is already. */
export function onToken(then: () => void): void {
  whenTaken = then;
}

takeToken();
export const router = $state<{ route: Route }>({ route: parse(location.hash) });

addEventListener("hashchange", () => {
  const isTaken = takeToken();
  router.route = parse(location.hash);
  if (isTaken) whenTaken();
});

/** Goes to an address of `to`. */
export function go(address: string, how: "push" | "replace" = "push"): void {
  if (how === "push") location.hash = address;
  else {
    history.replaceState(null, "", address);
    router.route = parse(address);
  }
}

/** `segue serve` prints an address with the token behind the `#`, where no server and no log sees it; it leaves the address at once. Returns whether there was one. */
function takeToken(): boolean {
  const found = /^#token=([A-Za-z0-9_.-]+)$/.exec(location.hash)?.[1];
  if (!found) return false;
  showToken(found);
  history.replaceState(null, "", `${location.pathname}#/`);
  return true;
}

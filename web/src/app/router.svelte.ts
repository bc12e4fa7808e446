// The router: parses the URL fragment into the current route. `App.svelte` renders the route.
import { setToken } from "../api/client";

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

/** Builds the addresses of the pages. */
export const paths = {
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

/** Parses an address into a route. */
export function parseRoute(hash: string): Route {
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

let tokenHandler: () => void = () => undefined;

/** Sets the handler for an address with a token that is opened while the page is already loaded. */
export function onToken(handler: () => void): void {
  tokenHandler = handler;
}

consumeToken();
export const router = $state<{ route: Route }>({ route: parseRoute(location.hash) });

addEventListener("hashchange", () => {
  const hasToken = consumeToken();
  router.route = parseRoute(location.hash);
  if (hasToken) tokenHandler();
});

/** Navigates to an address built by `paths`. */
export function navigate(address: string, mode: "push" | "replace" = "push"): void {
  if (mode === "push") location.hash = address;
  else {
    history.replaceState(null, "", address);
    router.route = parseRoute(address);
  }
}

/**
 * Reads the token from the address that `segue serve` prints, and replaces the address by that of the route
 * behind the token, or of the home page. The token is in the fragment because fragments are not sent to servers
 * or written to their logs. Returns true if there was a token.
 */
function consumeToken(): boolean {
  const [, token, route = "/"] = /^#token=([\w.-]+)(?:&route=(\/[\w/-]*))?$/.exec(location.hash) ?? [];
  if (!token) return false;
  setToken(token);
  history.replaceState(null, "", `${location.pathname}#${route}`);
  return true;
}

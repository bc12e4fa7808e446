import { beforeAll, expect, test, vi } from "vitest";

// Stubs for the browser APIs that the module uses when it is loaded.
const stored = new Map<string, string>();
const fakeLocation = { hash: "#token=secret-1.a_b", pathname: "/" };
let onToken: (then: () => void) => void;
let parseRoute: (hash: string) => unknown;
let paths: typeof import("./router.svelte").paths;
let storeToken: () => void;
const storedToken = () => stored.get("segue.token");
let dispatchHashChange = () => undefined as void;

beforeAll(async () => {
  vi.stubGlobal("localStorage", {
    getItem: (key: string) => stored.get(key) ?? null,
    setItem: (key: string, value: string) => stored.set(key, value),
    removeItem: (key: string) => stored.delete(key),
  });
  vi.stubGlobal("location", fakeLocation);
  vi.stubGlobal("history", {
    replaceState: (_data: unknown, _title: string, address: string) =>
      (fakeLocation.hash = address.slice(address.indexOf("#"))),
  });
  vi.stubGlobal("addEventListener", (_: string, listener: () => void) => (dispatchHashChange = listener));
  ({ storeToken } = await import("../api/client"));
  ({ onToken, parseRoute, paths } = await import("./router.svelte"));
});

test("a token is removed from the address at once, and stored after the server has accepted it", () => {
  expect(storedToken()).toBeUndefined();
  storeToken();
  expect(storedToken()).toBe("secret-1.a_b");
  expect(fakeLocation.hash).toBe("#/");
});

test("opening an address with a token on the loaded page signs in", () => {
  let calls = 0;
  onToken(() => (calls += 1));
  fakeLocation.hash = "#/memory";
  dispatchHashChange();
  expect(calls).toBe(0);
  fakeLocation.hash = "#token=secret-2";
  dispatchHashChange();
  expect([calls, fakeLocation.hash]).toEqual([1, "#/"]);
});

test("the route behind a token is opened, and an invalid one is not a token", () => {
  onToken(() => undefined);
  fakeLocation.hash = "#token=secret-3&route=/handoffs/0192f0c1-0000";
  dispatchHashChange();
  expect(fakeLocation.hash).toBe("#/handoffs/0192f0c1-0000");
  for (const hash of [
    "#token=secret-4&route=handoffs",
    "#token=secret-4&route=/a?b",
    "#token=secret-4&to=/a",
  ]) {
    fakeLocation.hash = hash;
    dispatchHashChange();
    expect(fakeLocation.hash).toBe(hash);
  }
});

test("parsing reverses building an address", () => {
  const cases: [string, unknown][] = [
    [paths.home(), { page: "home" }],
    [paths.thread("t"), { page: "thread", thread: "t", at: null }],
    [paths.thread("t", 12), { page: "thread", thread: "t", at: 12 }],
    [paths.lineage("t"), { page: "lineage", thread: "t" }],
    [paths.trace("t", "r"), { page: "trace", thread: "t", run: "r" }],
    [paths.handoffs(), { page: "handoffs" }],
    [paths.handoff("h"), { page: "handoff", handoff: "h" }],
    [paths.search(), { page: "search", q: "", thread: null }],
    [paths.search("a & b? #c", "t"), { page: "search", q: "a & b? #c", thread: "t" }],
    [paths.search("100 % +1 “x”"), { page: "search", q: "100 % +1 “x”", thread: null }],
    [paths.memory(), { page: "memory", summary: null }],
    [paths.memory("s"), { page: "memory", summary: "s" }],
  ];
  for (const [address, route] of cases) expect(parseRoute(address), address).toEqual(route);
});

test("invalid addresses are unknown, and invalid positions are ignored", () => {
  for (const hash of ["#/nowhere", "#/threads", "#/threads/t/what", "#/threads/t/runs", "#main"])
    expect(parseRoute(hash), hash).toEqual({ page: "unknown" });
  for (const at of ["-1", "0", "1.5", "x", ""])
    expect(parseRoute(`#/threads/t?at=${at}`)).toEqual({ page: "thread", thread: "t", at: null });
  expect(parseRoute("")).toEqual({ page: "home" });
});

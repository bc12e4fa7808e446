import { beforeAll, expect, test, vi } from "vitest";

// What the module asks of a browser when it is read.
const kept = new Map<string, string>();
const place = { hash: "#token=secret-1.a_b", pathname: "/" };
let onToken: (then: () => void) => void;
let parse: (hash: string) => unknown;
let to: typeof import("./router.svelte").to;
let keepToken: () => void;
const keptNow = () => kept.get("segue.token");
let hashChanged = () => undefined as void;

beforeAll(async () => {
  vi.stubGlobal("localStorage", {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => kept.set(key, value),
    removeItem: (key: string) => kept.delete(key),
  });
  vi.stubGlobal("location", place);
  vi.stubGlobal("history", {
    replaceState: (_data: unknown, _title: string, address: string) =>
      (place.hash = address.slice(address.indexOf("#"))),
  });
  vi.stubGlobal("addEventListener", (_: string, heard: () => void) => (hashChanged = heard));
  ({ keepToken } = await import("../api/client"));
  ({ onToken, parse, to } = await import("./router.svelte"));
});

test("a token is taken out of the address at once, shown to the server, and kept once that has taken it", () => {
  expect(keptNow()).toBeUndefined();
  keepToken();
  expect(keptNow()).toBe("secret-1.a_b");
  expect(place.hash).toBe("#/");
});

test("an address with a token that is opened where the page is already is entered with", () => {
  let times = 0;
  onToken(() => (times += 1));
  place.hash = "#/memory";
  hashChanged();
  expect(times).toBe(0);
  place.hash = "#token=secret-2";
  hashChanged();
  expect([times, place.hash]).toEqual([1, "#/"]);
});

test("every address that is made is read as what it was made of", () => {
  const cases: [string, unknown][] = [
    [to.home(), { page: "home" }],
    [to.thread("t"), { page: "thread", thread: "t", at: null }],
    [to.thread("t", 12), { page: "thread", thread: "t", at: 12 }],
    [to.lineage("t"), { page: "lineage", thread: "t" }],
    [to.trace("t", "r"), { page: "trace", thread: "t", run: "r" }],
    [to.handoffs(), { page: "handoffs" }],
    [to.handoff("h"), { page: "handoff", handoff: "h" }],
    [to.search(), { page: "search", q: "", thread: null }],
    [to.search("a & b? #c", "t"), { page: "search", q: "a & b? #c", thread: "t" }],
    [to.search("100 % +1 “x”"), { page: "search", q: "100 % +1 “x”", thread: null }],
    [to.memory(), { page: "memory", summary: null }],
    [to.memory("s"), { page: "memory", summary: "s" }],
  ];
  for (const [address, route] of cases) expect(parse(address), address).toEqual(route);
});

test("what is no address leads nowhere, and what is no place in a thread is left out", () => {
  for (const hash of ["#/nowhere", "#/threads", "#/threads/t/what", "#/threads/t/runs", "#main"])
    expect(parse(hash), hash).toEqual({ page: "unknown" });
  for (const at of ["-1", "0", "1.5", "x", ""])
    expect(parse(`#/threads/t?at=${at}`)).toEqual({ page: "thread", thread: "t", at: null });
  expect(parse("")).toEqual({ page: "home" });
});

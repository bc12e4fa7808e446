import { afterEach, expect, test, vi } from "vitest";
import { keepText, keptText } from "./kept";

afterEach(() => vi.unstubAllGlobals());

test("what a browser does not keep is held until the page is loaded again", () => {
  // Reading the storage throws where a person has blocked it.
  keepText("browser", "a", "text");
  expect(keptText("browser", "a")).toBe("text");
  keepText("browser", "a", null);
  expect(keptText("browser", "a")).toBeNull();
});

test("where there is no room, an older text does not come back in the place of a newer one", () => {
  const stored = new Map([["a", "old"]]);
  vi.stubGlobal("sessionStorage", {
    getItem: (name: string) => stored.get(name) ?? null,
    removeItem: (name: string) => stored.delete(name),
    setItem: () => {
      throw new DOMException("full", "QuotaExceededError");
    },
  });
  expect(keptText("tab", "a")).toBe("old");
  keepText("tab", "a", "new");
  expect(keptText("tab", "a")).toBe("new");
  expect(stored.has("a")).toBe(false);
});

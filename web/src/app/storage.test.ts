import { afterEach, expect, test, vi } from "vitest";
import { storeText, loadText } from "./storage";

afterEach(() => vi.unstubAllGlobals());

test("without storage, texts are held in memory", () => {
  // Accessing the storage throws if a person has blocked it.
  storeText("browser", "a", "text");
  expect(loadText("browser", "a")).toBe("text");
  storeText("browser", "a", null);
  expect(loadText("browser", "a")).toBeNull();
});

test("if the storage is full, the previous text does not reappear", () => {
  const storedTexts = new Map([["a", "old"]]);
  vi.stubGlobal("sessionStorage", {
    getItem: (name: string) => storedTexts.get(name) ?? null,
    removeItem: (name: string) => storedTexts.delete(name),
    setItem: () => {
      throw new DOMException("full", "QuotaExceededError");
    },
  });
  expect(loadText("tab", "a")).toBe("old");
  storeText("tab", "a", "new");
  expect(loadText("tab", "a")).toBe("new");
  expect(storedTexts.has("a")).toBe(false);
});

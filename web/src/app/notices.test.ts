import { beforeAll, expect, test, vi } from "vitest";

let notify: typeof import("./notices.svelte").notify;
let texts: () => string[];

beforeAll(async () => {
  vi.useFakeTimers();
  const module = await import("./notices.svelte");
  notify = module.notify;
  texts = () => module.notices.shown.map(({ text }) => text);
});

test("only notices without an action are dropped", () => {
  notify("first");
  for (let count = 0; count < 6; count++)
    notify(`deleted ${count}`, { action: { label: "Undo", run: () => undefined } });
  for (let count = 0; count < 5; count++) notify(`said ${count}`);
  expect(texts()).toEqual([
    ...[0, 1, 2, 3, 4, 5].map((count) => `deleted ${count}`),
    ...[1, 2, 3, 4].map((count) => `said ${count}`),
  ]);
  vi.runAllTimers();
  expect(texts()).toEqual([]);
});

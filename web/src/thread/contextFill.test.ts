import { expect, test } from "vitest";
import type { ContextUsage } from "../api/types";
import { contextFill } from "./contextFill";

const fill = (tokens: number, window_tokens: number | null) =>
  contextFill({ tokens, window_tokens } as ContextUsage);

test("the fill is the share of the window", () => {
  expect(fill(76_200, 200_000)).toEqual({
    share: 0.381,
    label: "38%",
    tokens: "76.2k of 200k tokens",
    isHigh: false,
  });
});
test("without a window, the fill is the number of tokens", () => {
  expect(fill(30_771, null)).toEqual({
    share: null,
    label: "30.8k",
    tokens: "30.8k tokens",
    isHigh: false,
  });
});
test("a window is high from three quarters, and never more than full", () => {
  expect([fill(149, 200).isHigh, fill(150, 200).isHigh]).toEqual([false, true]);
  expect(fill(300, 200)).toMatchObject({ share: 1, label: "100%" });
});

// The fill of the model's context window, as the page shows it. Pure.
import type { ContextUsage } from "../api/types";
import { compactNumber } from "../ui/format";

/** The share of the window above which the page suggests an action. */
const HIGH_SHARE = 0.75;

export interface ContextFill {
  /** The used share of the window from 0 to 1, or null if the window is unknown. */
  share: number | null;
  /** The share in percent, or the number of tokens if the window is unknown, without the unit. */
  label: string;
  /** The tokens and the window. */
  tokens: string;
  isHigh: boolean;
}

/** Returns the fill of the context window. */
export function contextFill({ tokens, window_tokens }: ContextUsage): ContextFill {
  const used = compactNumber(tokens);
  if (!window_tokens) return { share: null, label: used, tokens: `${used} tokens`, isHigh: false };
  const share = Math.min(1, tokens / window_tokens);
  return {
    share,
    label: `${Math.round(share * 100)}%`,
    tokens: `${used} of ${compactNumber(window_tokens)} tokens`,
    isHigh: share >= HIGH_SHARE,
  };
}

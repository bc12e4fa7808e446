// How what happened to a conversation is called on the screen.

/** Why a conversation was condensed. */
export const triggers: Record<string, string> = {
  auto: "grown too large",
  manual: "by request",
  overflow: "refused as too large",
};

/** Why old turns left the context. */
export const reasons: Record<string, string> = { budget: "over its budget", request: "by request" };

// Renders a React hook in jsdom and waits until its return value fulfils a condition.

import globalJsdom from "global-jsdom";

globalJsdom(undefined, { url: "http://localhost:3000" });
globalThis.IS_REACT_ACT_ENVIRONMENT = false;

const { createElement, useEffect } = await import("react");
const { createRoot } = await import("react-dom/client");

// Mounts a hook. `now` is its latest return value, `until` waits for a condition on it, and `change` updates its options.
export function mount(hook, options) {
  const root = createRoot(document.body.appendChild(document.createElement("div")));
  const waiting = new Set();
  const mounted = {
    now: undefined,
    async until(condition, description) {
      const isMet = () => mounted.now !== undefined && condition(mounted.now);
      if (isMet()) return mounted.now;
      let timer;
      await new Promise((resolve, reject) => {
        const recheck = () => isMet() && (waiting.delete(recheck), resolve());
        waiting.add(recheck);
        const currentValue = () => JSON.stringify({ messages: mounted.now?.messages, interrupt: mounted.now?.interrupt, loading: mounted.now?.isLoading, error: String(mounted.now?.error) }).slice(0, 1_500);
        timer = setTimeout(() => reject(new Error(`${description ?? condition} did not appear; the hook returned: ${currentValue()}`)), 15_000);
      }).finally(() => clearTimeout(timer));
      return mounted.now;
    },
    change(more) {
      options = { ...options, ...more };
      root.render(createElement(Probe));
    },
    unmount: () => root.unmount(),
  };
  function Probe() {
    mounted.now = hook(options);
    useEffect(() => [...waiting].forEach((recheck) => recheck()));
    return null;
  }
  root.render(createElement(Probe));
  return mounted;
}

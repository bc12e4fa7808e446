// Drives a React hook in jsdom: renders it, and waits for what it shows, render by render.

import globalJsdom from "global-jsdom";

globalJsdom(undefined, { url: "http://localhost:3000" });
globalThis.IS_REACT_ACT_ENVIRONMENT = false;

const { createElement, useEffect } = await import("react");
const { createRoot } = await import("react-dom/client");

// A mounted hook: `now` is what it returned last.
export function mount(hook, options) {
  const root = createRoot(document.body.appendChild(document.createElement("div")));
  const waiting = new Set();
  const mounted = {
    now: undefined,
    async until(condition, what) {
      const met = () => mounted.now !== undefined && condition(mounted.now);
      if (met()) return mounted.now;
      let late;
      await new Promise((resolve, reject) => {
        const look = () => met() && (waiting.delete(look), resolve());
        waiting.add(look);
        const shown = () => JSON.stringify({ messages: mounted.now?.messages, interrupt: mounted.now?.interrupt, loading: mounted.now?.isLoading, error: String(mounted.now?.error) }).slice(0, 1_500);
        late = setTimeout(() => reject(new Error(`${what ?? condition} did not come; shown: ${shown()}`)), 15_000);
      }).finally(() => clearTimeout(late));
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
    useEffect(() => [...waiting].forEach((look) => look()));
    return null;
  }
  root.render(createElement(Probe));
  return mounted;
}

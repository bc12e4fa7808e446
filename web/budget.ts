// Limits the size of what a browser loads before a thread can be read. The build fails above it. Other pages
// are loaded lazily.
import { gzipSync } from "node:zlib";
import type { Plugin } from "vite";

/** The limit in bytes for scripts and styles, compressed as the server sends them. */
const BYTES_MAX = 100_000;

/** The page of a thread. */
const THREAD = "/src/thread/ThreadPage.svelte";

export function budget(): Plugin {
  return {
    name: "segue-budget",
    generateBundle(_, bundle) {
      const files = new Set<string>();
      const add = (name: string): void => {
        const file = bundle[name];
        if (!file || files.has(name)) return;
        files.add(name);
        if (file.type !== "chunk") return;
        file.viteMetadata?.importedCss.forEach(add);
        file.imports.forEach(add);
      };
      for (const file of Object.values(bundle))
        if (file.type === "chunk" && (file.isEntry || file.facadeModuleId?.endsWith(THREAD)))
          add(file.fileName);
      const bytes = [...files].reduce((sum, name) => {
        const file = bundle[name];
        const content = file?.type === "chunk" ? file.code : (file?.source ?? "");
        return sum + gzipSync(content, { level: 9 }).length;
      }, 0);
      this.info(`${files.size} files, ${bytes} bytes compressed, before a thread can be read`);
      if (bytes > BYTES_MAX) this.error(`a thread takes ${bytes} bytes, more than ${BYTES_MAX}`);
    },
  };
}

// Build configuration. The output goes to the HTTP crate, which embeds it in the program. Builds are
// reproducible.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";
import { budget } from "./budget.ts";

// Assets are cached forever, so the file name has a hash of the packages that the licences belong to.
const packages = createHash("sha256").update(readFileSync(new URL("package-lock.json", import.meta.url)));
const licences = `assets/licences-${packages.digest("hex").slice(0, 8)}.txt`;

export default defineConfig({
  base: "./",
  plugins: [svelte(), budget()],
  build: {
    outDir: "../crates/http/page",
    emptyOutDir: true,
    target: "es2022",
    // Nothing is inlined, because the content security policy only allows files of the page's own origin.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // Shared modules are bundled into one chunk, because many small ones compress worse.
    rolldownOptions: {
      output: {
        codeSplitting: {
          groups: [
            {
              name: "base",
              test: /node_modules|\/src\/(ui|api|app)\/|\/src\/entries\/(text|markdown|code|diff)\//,
            },
          ],
        },
      },
    },
    license: { fileName: licences },
  },
  define: { "import.meta.env.LICENCES": JSON.stringify(licences) },
  // During development, a running Segue server answers API requests: SEGUE_URL=http://127.0.0.1:2024 npm run
  // dev
  server: {
    proxy: Object.fromEntries(
      ["/api", "/threads", "/runs", "/assistants", "/info"].map((path) => [
        path,
        process.env.SEGUE_URL ?? "http://127.0.0.1:2024",
      ]),
    ),
  },
  test: { include: ["src/**/*.test.ts"] },
});

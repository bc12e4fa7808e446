// Runs cases one after the other and says which failed. Arguments: the SDK's package, the server, its key, the model behind it.

const [, , sdk, url, key, modelUrl] = process.argv;

export const server = { sdk, url, key, modelUrl };

const CASE_MS_MAX = 60_000;

export function check(condition, what) {
  if (!condition) throw new Error(typeof what === "string" ? what : JSON.stringify(what, null, 1)?.slice(0, 2_000));
}

export function same(found, expected) {
  check(JSON.stringify(found) === JSON.stringify(expected), { found, expected });
}

export function textOf(message) {
  if (typeof message.content === "string") return message.content;
  return message.content.filter((block) => block.type === "text").map((block) => block.text).join("");
}

export const human = (content, more = {}) => ({ messages: [{ type: "human", content, ...more }] });

export async function openGate(name) {
  await fetch(`${modelUrl}/gates/${name}`);
}

export async function run(cases) {
  const failed = [];
  for (const [name, work] of Object.entries(cases)) {
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error("it takes too long")), CASE_MS_MAX);
    });
    try {
      await Promise.race([work(), late]);
      console.log(`ok   ${name}`);
    } catch (error) {
      failed.push(name);
      console.log(`FAIL ${name}\n${error?.stack ?? error}`);
    } finally {
      clearTimeout(timer);
    }
  }
  const count = Object.keys(cases).length;
  console.log(failed.length ? `${failed.length} of ${count} cases failed: ${failed.join(", ")}` : `all ${count} cases passed`);
  process.exit(failed.length ? 1 : 0);
}

// Test runner: runs cases one after the other and prints which of them failed. Arguments: the package name of the SDK,
// the URL of the server, its API key, and the URL of the scripted model.

const [, , sdk, url, key, modelUrl] = process.argv;

export const server = { sdk, url, key, modelUrl };

// Maximum time of a case, in milliseconds.
const CASE_MS_MAX = 60_000;

// Throws an error with the message (text or any JSON value) unless the condition is true.
export function check(condition, message) {
  if (!condition) throw new Error(typeof message === "string" ? message : JSON.stringify(message, null, 1)?.slice(0, 2_000));
}

// Checks that two values are equal as JSON.
export function same(actual, expected) {
  check(JSON.stringify(actual) === JSON.stringify(expected), { actual, expected });
}

export function textOf(message) {
  if (typeof message.content === "string") return message.content;
  return message.content.filter((block) => block.type === "text").map((block) => block.text).join("");
}

export const human = (content, more = {}) => ({ messages: [{ type: "human", content, ...more }] });

// Opens a gate of the model, so that the replies waiting there continue.
export async function openGate(name) {
  await fetch(`${modelUrl}/gates/${name}`);
}

export async function run(cases) {
  const failed = [];
  for (const [name, testCase] of Object.entries(cases)) {
    let timer;
    const timeout = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error("the case timed out")), CASE_MS_MAX);
    });
    try {
      await Promise.race([testCase(), timeout]);
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

"use strict";

/* The view of one sample: prompt, code, output, conversation, metadata. */

const LONG = 1200; // characters, or
const LINES = 14; // lines: beyond, what a tool said is folded

const kept = new Map(); // the chunks unpacked last

/** A chunk of details, out of its gzip in base64. */
function unpack(id) {
  if (!kept.has(id)) {
    if (kept.size >= 8) kept.delete(kept.keys().next().value);
    const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    kept.set(id, new Response(stream).json());
  }
  return kept.get(id);
}

const LEFT_OUT = -2; // where the number of a chunk would stand

/** The details of this kind at this place, or null where the page has none. */
async function detailsOf(kind, place) {
  const chunk = TABLE.chunks[kind][place];
  return chunk < 0 ? null : (await unpack(`${kind}-${chunk}`))[place];
}

/** A word for what did not fit into the page, or null. */
function missing(kind, place, file) {
  if (TABLE.chunks[kind][place] !== LEFT_OUT) return null;
  return element("p", { class: "muted" }, `Left out to keep this page small: ${file} has it.`);
}

function section(title, note, ...content) {
  const heading = element("h3", {}, title, note ? " " : "", element("small", {}, note || ""));
  return element("section", {}, heading, ...content);
}

function promptOf(problem) {
  const parts = [block(problem.prompt)];
  const code = (name, text) => text && parts.push(folded(name, () => block(text, true)));
  code(`Asserts: ${problem.asserts.length}`, problem.asserts.join("\n"));
  code(`Held-out asserts: ${problem.held_out.length}`, problem.held_out.join("\n"));
  code("Reference solution", problem.reference);
  return section("Prompt", "", ...parts);
}

const FENCED = 100; // blocks of one answer that stand by themselves

/** An answer's fenced blocks, and the text between them. */
function partsOf(text) {
  const parts = [];
  let [start, open] = [0, -1]; // of what is not in a part yet, and of a block without an end
  for (let line = 0; line < text.length && parts.length < 2 * FENCED; ) {
    const end = text.indexOf("\n", line) < 0 ? text.length : text.indexOf("\n", line);
    if (text.startsWith("```", line)) {
      if (open < 0) open = line;
      else if (/^`{3}[ \t\r]*$/.test(text.slice(line, end))) {
        parts.push({ text: text.slice(start, open) }, { text: text.slice(open, end), fenced: true });
        [start, open] = [end + 1, -1];
      }
    }
    line = end + 1;
  }
  return [...parts, { text: text.slice(start) }];
}

function codeOf(entry) {
  const kinds = { submission: "submitted by the agent", exit_code: "run as a program", completion: "the model's answer" };
  const parts = partsOf(entry.completion).filter((part) => part.text.trim());
  const blocks = parts.map((part) => block(part.text, parts.length === 1 || part.fenced));
  return section("Code", kinds[entry.grader] || "", ...blocks);
}

function outputOf(entry) {
  const parts = [];
  if (entry.detail) parts.push(block(entry.detail));
  if (entry.failure) parts.push(folded("Failure of the test", () => block(entry.failure), !entry.detail));
  return parts.length ? section("Output", "", ...parts) : null;
}

function isLong(text) {
  return text.length > LONG || text.split("\n", LINES + 1).length > LINES;
}

function perhapsFolded(text, fold) {
  if (!fold) return block(text);
  const lines = text.split("\n");
  const first = visible(lines[0].slice(0, 80));
  return folded(`${first} … (${lines.length.toLocaleString("en")} lines)`, () => block(text));
}

/** A call's arguments: texts as blocks, so that code reads as code. */
function argumentsOf(text) {
  let told;
  try {
    told = JSON.parse(text);
  } catch {
    return [block(text)]; // what the model wrote need not be JSON
  }
  if (told === null || typeof told !== "object" || Array.isArray(told)) return [block(text)];
  const several = Object.keys(told).length > 1;
  return Object.entries(told).flatMap(([name, value]) => [
    ...(several || name !== "code" ? [element("div", { class: "argument" }, visible(name))] : []),
    typeof value === "string" ? block(value, true) : block(JSON.stringify(value, null, 2)),
  ]);
}

function textOf(content) {
  if (content === null || content === undefined) return "";
  return typeof content === "string" ? content : JSON.stringify(content, null, 2);
}

function messageOf(message) {
  const role = ["system", "user", "assistant", "tool"].includes(message.role) ? message.role : "other";
  const made = element("article", { class: `message ${role}` }, element("h4", {}, visible(message.role)));
  const said = textOf(message.content);
  if (message.reasoning_content) made.append(folded("Reasoning", () => block(message.reasoning_content)));
  if (role === "assistant" && said) made.append(element("p", { class: "say" }, visible(said)));
  else if (said || role === "tool") made.append(perhapsFolded(said || "(nothing)", role === "system" || isLong(said)));
  if (message.refusal) made.append(element("p", { class: "say" }, visible(message.refusal)));
  for (const call of message.tool_calls || []) {
    const asked = call.function || {};
    made.append(
      element("div", { class: "call" }, "calls ", element("code", {}, visible(asked.name)),
        ...argumentsOf(textOf(asked.arguments))),
    );
  }
  return made;
}

const PAIRS = 200; // keys of one list
const NAME = 300; // characters of a key
const VALUE = 10_000; // of its value

function pairs(values, more = 0) {
  const list = element("dl", { class: "facts" });
  const all = Object.entries(values);
  for (const [name, value] of all.slice(0, PAIRS)) {
    const text = clipped(Array.isArray(value) ? value.map(textOf).join(", ") : textOf(value), VALUE);
    if (text !== "") list.append(element("dt", {}, visible(clipped(name, NAME))), element("dd", {}, visible(text)));
  }
  const rest = Math.max(all.length - PAIRS, 0) + more;
  if (rest > 0) list.append(element("dt", {}, `and ${rest.toLocaleString("en")} more`), element("dd", {}, "samples.jsonl has them."));
  return list;
}

function trajectoryOf(rollout, number, several) {
  const title = several ? `Trajectory ${number}` : "Trajectory";
  const { turns = 0, tool_calls: calls = 0, tokens_in: read = 0, tokens_out: wrote = 0 } = rollout.metrics;
  const note = `${turns} turns, ${calls} tool calls, ${(read + wrote).toLocaleString("en")} tokens, ended by ${rollout.stop_reason}`;
  return section(
    title,
    note,
    ...(rollout.detail ? [element("p", {}, visible(rollout.detail))] : []),
    ...rollout.messages.map(messageOf),
    folded("Numbers and tags of the rollout", () => pairs({ ...rollout.metrics, ...rollout.metadata })),
  );
}

function metadataOf(entry) {
  return Object.keys(entry.metadata).length ? section("Metadata", "", pairs(entry.metadata, entry.more)) : null;
}

function howOf(entry) {
  return section("How it ran", "", pairs({
    ...entry.names, // those that the table has no room for
    "test ended": entry.ending || entry.state,
    attempt: entry.attempt,
    retries: entry.retries,
    worker: entry.worker,
    "held-out asserts": entry.held_out ? "yes" : "no",
  }));
}

/** Everything that the page knows of the sample at this place of the table. */
async function bodyOf(row) {
  const [entry, problem, rollouts] = await Promise.all([
    detailsOf("entries", row.place),
    detailsOf("problems", row.problem),
    detailsOf("trajectories", row.place),
  ]);
  const left = (kind, title, file) => {
    const note = missing(kind, kind === "problems" ? row.problem : row.place, file);
    return note && section(title, "", note);
  };
  coloured = 0;
  const parts = [
    problem ? promptOf(problem) : left("problems", "Prompt", "problems.jsonl"),
    entry?.completion ? codeOf(entry) : left("entries", "Code", "samples.jsonl"),
    entry && outputOf(entry),
    ...(rollouts || []).map((rollout, place) => trajectoryOf(rollout, place + 1, rollouts.length > 1)),
    left("trajectories", "Trajectory", "trajectories-*.jsonl"),
    entry && metadataOf(entry),
    entry && howOf(entry),
  ];
  return element("div", { class: "sample-body" }, ...parts.filter(Boolean));
}

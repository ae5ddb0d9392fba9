"use strict";

/* Text that models wrote, as text: nothing on this page is ever parsed as markup. */

/** An element with attributes; "onclick" and the like are listeners, strings become text nodes. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

// Controls, and characters that reorder or hide what stands around them.
const UNSEEN = /[\0-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

/** The text with a sign in place of every character that could not be seen. */
function visible(text) {
  return String(text)
    .toWellFormed()
    .replace(/\r\n/g, "\n")
    .replace(UNSEEN, (character) => {
      const code = character.charCodeAt(0);
      if (code < 32) return String.fromCharCode(0x2400 + code);
      return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
    });
}

/** The text, or its beginning where nobody would read all of it. */
function clipped(text, longest) {
  const rest = text.length - longest;
  return rest > 0 ? `${text.slice(0, longest)} [${rest.toLocaleString("en")} more characters]` : text;
}

// Tokens of one sample: beyond, colours cost more time than they are worth.
/** The text, which a line may break behind its slashes and underscores: names are long. */
function breakable(text) {
  const parts = visible(text).split(/(?<=[/_])/);
  return parts.flatMap((part, place) => (place ? [element("wbr"), part] : [part]));
}

const COLOURED = 5_000;
let coloured = 0;
const TOKEN = new RegExp(
  [
    /(?<c>#[^\n]*)/,
    /(?<s>[rbfu]{0,2}(?:"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?))/,
    /\b(?<k>and|as|assert|async|await|break|class|continue|def|del|elif|else|except|False|finally|for|from|global|if|import|in|is|lambda|None|nonlocal|not|or|pass|raise|return|True|try|while|with|yield)\b/,
    /\b(?<n>\d[\w.]*)/,
  ]
    .map((part) => part.source)
    .join("|"),
  "g",
);

/** A block of text; Python is coloured. */
function block(text, python = false) {
  const made = element("pre", { tabindex: "0" });
  const shown = visible(text);
  let end = 0;
  for (const found of python ? shown.matchAll(TOKEN) : []) {
    if (!found[0]) continue;
    if (++coloured > COLOURED) break;
    made.append(shown.slice(end, found.index));
    const kind = Object.keys(found.groups).find((name) => found.groups[name] !== undefined);
    made.append(element("span", { class: kind }, found[0]));
    end = found.index + found[0].length;
  }
  made.append(shown.slice(end));
  return made;
}

/** What is opened on demand; its content is made when it first is. */
function folded(summary, content, open = false) {
  const made = element("details", {}, element("summary", {}, summary));
  made.addEventListener("toggle", () => made.open && made.children.length === 1 && made.append(content()));
  made.open = open;
  return made;
}

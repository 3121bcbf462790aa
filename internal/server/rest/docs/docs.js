// Draws the OpenAPI description. All text goes in as text, never as HTML.
"use strict";

const methods = ["get", "post", "put", "patch", "delete"];
const maxDepth = 6;

function el(name, attrs, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attrs || {})) node.setAttribute(key, value);
  node.append(...children.filter((c) => c !== null && c !== undefined && c !== ""));
  return node;
}

function resolve(api, schema) {
  for (let i = 0; schema && schema.$ref && i < 10; i++) {
    schema = schema.$ref.split("/").slice(1).reduce((at, key) => at && at[key], api);
  }
  return schema || {};
}

// typeOf says in words what a value is.
function typeOf(api, raw) {
  const schema = resolve(api, raw);
  if (schema.oneOf) return schema.oneOf.map((s) => typeOf(api, s)).join(" or ");
  if (schema.enum) return schema.enum.join(", ");
  const type = [].concat(schema.type || "any").filter((t) => t !== "null").join(" or ");
  if (type === "array") return "list of " + typeOf(api, schema.items);
  if (type === "object" && schema.additionalProperties && !schema.properties) return "map to " + typeOf(api, schema.additionalProperties);
  const notes = [];
  if (schema.format === "date-time") notes.push("RFC 3339");
  if (schema.minimum !== undefined || schema.maximum !== undefined) notes.push([schema.minimum ?? "", schema.maximum ?? ""].join("…"));
  if (schema.maxLength) notes.push("≤ " + schema.maxLength + " characters");
  return type + (notes.length ? " (" + notes.join(", ") + ")" : "");
}

function row(name, required, type, about, example) {
  return el("tr", {},
    el("td", {}, el("code", {}, name), required ? el("span", { class: "required", title: "required" }, " *") : null),
    el("td", {}, type),
    el("td", {}, about || "", example === undefined ? null : el("span", {}, about ? " " : "", "Example: ", el("code", {}, typeof example === "string" ? example : JSON.stringify(example)))));
}

// fields lists the fields of an object and, indented by their path, those inside.
function fields(api, raw, prefix, depth, rows) {
  const schema = resolve(api, raw);
  if (depth > maxDepth) return rows;
  if (schema.oneOf) {
    schema.oneOf.forEach((s) => fields(api, s, prefix, depth + 1, rows));
    return rows;
  }
  if (schema.items) return fields(api, schema.items, prefix + "[]", depth + 1, rows);
  const required = schema.required || [];
  const properties = Object.entries(schema.properties || {}).sort(([a], [b]) => required.includes(b) - required.includes(a));
  for (const [name, child] of properties) {
    const inner = resolve(api, child);
    const path = prefix ? prefix + "." + name : name;
    const example = (child.examples || inner.examples || [])[0];
    rows.push(row(path, required.includes(name), typeOf(api, child), child.description || inner.description, example));
    fields(api, child, path, depth + 1, rows);
  }
  return rows;
}

// sample is a value as the schema describes it: by its examples, and with what is required; all: with every field.
function sample(api, raw, all, depth) {
  const schema = resolve(api, raw);
  const example = (raw.examples || schema.examples || [])[0];
  if (example !== undefined) return example;
  if (schema.oneOf) return sample(api, schema.oneOf[0], all, depth + 1);
  if (schema.enum) return schema.enum[0];
  switch ([].concat(schema.type || "any").filter((t) => t !== "null")[0]) {
    case "string": return schema.format === "date-time" ? "2027-01-31T09:00:00Z" : "…";
    case "integer": case "number": return schema.default ?? Math.max(schema.minimum ?? 0, 1);
    case "boolean": return false;
    case "array": return depth > maxDepth ? [] : [sample(api, schema.items, all, depth + 1)];
    case "any": return {};
  }
  if (!schema.properties) return schema.additionalProperties ? { team: sample(api, schema.additionalProperties, all, depth + 1) } : {};
  const out = {};
  const required = schema.required || [];
  for (const [name, child] of Object.entries(schema.properties)) {
    const shown = all || required.includes(name) || (required.length === 0 && (child.examples || resolve(api, child).examples));
    if (shown && depth <= maxDepth) out[name] = sample(api, child, all, depth + 1);
  }
  return out;
}

function mediaOf(content) {
  const kinds = Object.keys(content || {});
  return kinds.includes("application/json") ? "application/json" : kinds[0];
}

function bodyOf(content) {
  const kind = mediaOf(content);
  return kind ? content[kind].schema : null;
}

function table(title, rows) {
  return rows.length ? el("div", {}, el("h3", {}, title), el("table", {}, el("tbody", {}, ...rows))) : null;
}

function curl(api, method, path, op) {
  const lines = ["\"$BELFRY_SERVER" + path.replaceAll("{", "$").replaceAll("}", "") + "\"", "-H \"Authorization: Bearer $BELFRY_KEY\""];
  const kind = op.requestBody && mediaOf(op.requestBody.content);
  if (kind) {
    const media = op.requestBody.content[kind];
    const body = typeof media.example === "string" ? media.example : JSON.stringify(media.example ?? sample(api, media.schema, false, 0), null, 2);
    lines.push((kind === "application/json" ? "--json '" : "-H 'Content-Type: " + kind + "' --data-binary '") + body + "'");
  }
  const verb = method === "get" || (method === "post" && kind) ? "" : "-X " + method.toUpperCase() + " ";
  return "curl " + verb + lines.join(" \\\n  ");
}

function draw(api, path, method, op) {
  const section = el("section", { id: op.operationId },
    el("h2", {}, op.summary || op.operationId),
    el("p", { class: "line" },
      el("span", { class: "method " + method }, method.toUpperCase()), el("span", { class: "path" }, path),
      el("span", { class: "role" }, op["x-role"] === "none" ? "needs no key" : "needs " + (op["x-role"] || "admin"))),
    ...(op.description || "").split("\n\n").map((text) => (text ? el("p", {}, text) : null)));
  const inputs = (op.parameters || []).map((p) => row(p.name, p.required, p.in + ", " + typeOf(api, p.schema), p.description, p.example ?? (resolve(api, p.schema).examples || [])[0]));
  const body = op.requestBody ? fields(api, bodyOf(op.requestBody.content), "", 0, []) : [];
  section.append(...[table("Parameters", inputs), table("Body", body)].filter(Boolean));
  for (const [status, answer] of Object.entries(op.responses || {})) {
    const rows = fields(api, bodyOf(answer.content), "", 0, []);
    const name = status + " " + (answer.description || "");
    if (status === "default") continue; // the same everywhere: told once, at the top
    const example = rows.length ? el("pre", {}, JSON.stringify(sample(api, bodyOf(answer.content), true, 0), null, 2)) : null;
    section.append(rows.length ? el("details", {}, el("summary", {}, "Answer: " + name), table("", rows), example) : el("p", { class: "soft" }, "Answer: " + name));
  }
  section.append(el("pre", {}, curl(api, method, path, op)));
  return section;
}

function show(api) {
  document.getElementById("version").textContent = api.info.version || "";
  document.getElementById("about").textContent = api.info.description || "";
  const about = new Map((api.tags || []).map((tag) => [tag.name, tag.description]));
  const tags = new Map([...about.keys()].map((name) => [name, []]));
  for (const [path, item] of Object.entries(api.paths)) {
    for (const method of methods) {
      const op = item[method];
      if (!op) continue;
      const tag = (op.tags || ["other"])[0];
      if (!tags.has(tag)) tags.set(tag, []);
      tags.get(tag).push({ path, method, op });
    }
  }
  document.getElementById("codes").append(...(api["x-problems"] || []).map((p) => row(p.code, false, String(p.status), p.title)));
  document.getElementById("problem").append(...fields(api, { $ref: "#/components/schemas/Problem" }, "", 0, []));
  const list = document.getElementById("list");
  const main = document.getElementById("operations");
  for (const [tag, operations] of tags) {
    if (operations.length === 0) continue;
    const title = (tag[0].toUpperCase() + tag.slice(1)).replaceAll("-", " ");
    main.append(el("div", { class: "group", id: "group-" + tag }, el("h1", {}, title), el("p", {}, about.get(tag) || "")));
    const items = operations.map(({ path, method, op }) => {
      main.append(draw(api, path, method, op));
      return el("li", { "data-text": (op.summary + " " + path + " " + op.operationId).toLowerCase() }, el("a", { href: "#" + op.operationId }, op.summary || op.operationId));
    });
    list.append(el("div", {}, el("h2", {}, el("a", { href: "#group-" + tag }, title)), el("ul", {}, ...items)));
  }
  document.getElementById("filter").addEventListener("input", (event) => {
    const wanted = event.target.value.toLowerCase();
    document.getElementById("menu").open = true;
    for (const group of list.children) {
      const items = [...group.querySelectorAll("li")];
      items.forEach((item) => { item.hidden = !item.dataset.text.includes(wanted); });
      group.hidden = items.every((item) => item.hidden);
    }
  });
  // On a narrow page the list would be in the way.
  document.getElementById("menu").open = matchMedia("(min-width: 821px)").matches;
  if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

fetch("/api/v1/openapi.json").then((answer) => answer.json()).then(show).catch((error) => {
  const failed = document.getElementById("failed");
  failed.textContent = "The description could not be drawn: " + error;
  failed.hidden = false;
});

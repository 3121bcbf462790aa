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

function bodyOf(content) {
  const kinds = Object.keys(content || {});
  return kinds.length ? content[kinds[0]].schema : null;
}

function table(title, rows) {
  return rows.length ? el("div", {}, el("h3", {}, title), el("table", {}, el("tbody", {}, ...rows))) : null;
}

function curl(method, path, op) {
  const lines = ["curl " + (method === "get" ? "" : "-X " + method.toUpperCase() + " ") + "\"$BELFRY_URL" + path.replaceAll("{", "$").replaceAll("}", "") + "\" \\", "  -H \"Authorization: Bearer $BELFRY_KEY\""];
  if (op.requestBody) {
    lines[1] += " \\";
    lines.push("  -H 'Content-Type: application/json' -d @body.json");
  }
  return lines.join("\n");
}

function draw(api, path, method, op) {
  const section = el("section", { id: op.operationId },
    el("h2", {}, op.summary || op.operationId),
    el("p", { class: "line" },
      el("span", { class: "method " + method }, method.toUpperCase()), el("span", { class: "path" }, path),
      el("span", { class: "role" }, "needs " + (op["x-role"] || "admin"))),
    op.description ? el("p", {}, op.description) : null);
  const inputs = (op.parameters || []).map((p) => row(p.name, p.required, p.in + ", " + typeOf(api, p.schema), p.description, p.example ?? (resolve(api, p.schema).examples || [])[0]));
  const body = op.requestBody ? fields(api, bodyOf(op.requestBody.content), "", 0, []) : [];
  section.append(...[table("Parameters", inputs), table("Body", body)].filter(Boolean));
  for (const [status, answer] of Object.entries(op.responses || {})) {
    const rows = fields(api, bodyOf(answer.content), "", 0, []);
    const name = status === "default" ? "Otherwise: a problem" : status + " " + (answer.description || "");
    section.append(rows.length ? el("details", {}, el("summary", {}, name), table("", rows)) : el("p", {}, name));
  }
  section.append(el("pre", {}, curl(method, path, op)));
  return section;
}

function show(api) {
  document.getElementById("version").textContent = api.info.version || "";
  document.getElementById("about").textContent = api.info.description || "";
  const tags = new Map();
  for (const [path, item] of Object.entries(api.paths)) {
    for (const method of methods) {
      const op = item[method];
      if (!op) continue;
      const tag = (op.tags || ["other"])[0];
      if (!tags.has(tag)) tags.set(tag, []);
      tags.get(tag).push({ path, method, op });
    }
  }
  const list = document.getElementById("list");
  const main = document.getElementById("operations");
  for (const [tag, operations] of tags) {
    const items = operations.map(({ path, method, op }) => {
      main.append(draw(api, path, method, op));
      return el("li", { "data-text": (op.summary + " " + path + " " + op.operationId).toLowerCase() }, el("a", { href: "#" + op.operationId }, op.summary || op.operationId));
    });
    list.append(el("div", {}, el("h2", {}, tag), el("ul", {}, ...items)));
  }
  document.getElementById("filter").addEventListener("input", (event) => {
    const wanted = event.target.value.toLowerCase();
    for (const group of list.children) {
      const items = [...group.querySelectorAll("li")];
      items.forEach((item) => { item.hidden = !item.dataset.text.includes(wanted); });
      group.hidden = items.every((item) => item.hidden);
    }
  });
  if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

fetch("/api/v1/openapi.json").then((answer) => answer.json()).then(show).catch((error) => {
  const failed = document.getElementById("failed");
  failed.textContent = "The description could not be drawn: " + error;
  failed.hidden = false;
});

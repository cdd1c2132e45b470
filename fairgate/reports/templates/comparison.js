"use strict";
// Sorts the tables of this page and hands them out. Nothing is fetched or sent, and the page is whole without it.

const WAYS = ["none", "descending", "ascending"];
const TEX = {
  "&": "\\&", "%": "\\%", "$": "\\$", "#": "\\#", "_": "\\_", "{": "\\{", "}": "\\}",
  "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}",
  "<": "\\textless{}", ">": "\\textgreater{}", "|": "\\textbar{}", "[": "{[}", "]": "{]}", "*": "{*}",
  "×": "$\\times$", "Δ": "$\\Delta$", "’": "'", "−": "$-$", "→": "$\\to$", "·": "$\\cdot$",
};

function made(name, text, properties = {}) {
  return Object.assign(document.createElement(name), {textContent: text}, properties);
}

function plain(cell) {
  return (cell.dataset.text ?? cell.textContent).replace(/\s+/g, " ").trim();
}

function numeric(text) {
  return text === undefined || text === "" ? null : Number(text);
}

/* sorting */

function compare(first, second, sign) {
  if (first === null || second === null) return (first === null) - (second === null); // what is missing stands last
  if (typeof first === "number") return sign * (first < second ? -1 : first > second ? 1 : 0);
  return sign * first.localeCompare(second, "en", {numeric: true});
}

function sortTable(table, head, way) {
  const text = head.dataset.sort === "text";
  const sign = way === "descending" ? -1 : 1;
  const key = row => text ? plain(row.cells[head.cellIndex]) : numeric(row.cells[head.cellIndex].dataset.value);
  const order = (keys, parts) => [...parts].sort((a, b) =>
    (way === "none" ? 0 : compare(keys.get(a), keys.get(b), sign)) || a.dataset.place - b.dataset.place);
  const bodies = new Map();
  for (const body of table.tBodies) {
    const rows = [...body.rows].filter(row => !row.matches(".group"));
    if (rows.length === 0) continue;
    const sorted = order(new Map(rows.map(row => [row, key(row)])), rows);
    body.append(...sorted);
    bodies.set(body, text ? sorted[0].dataset.group ?? key(sorted[0]) : key(sorted[0]));
  }
  for (const body of order(bodies, bodies.keys())) table.insertBefore(body, table.tFoot);
}

function sortable(table) {
  [...table.tBodies].forEach((body, at) => { body.dataset.place = at; });
  [...table.rows].forEach((row, at) => { row.dataset.place = at; });
  const heads = [...table.tHead.querySelectorAll("th[data-sort]")];
  for (const head of heads) {
    const button = made("button", "", {type: "button", className: "sort"});
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const first = head.dataset.sort === "text" ? ["none", "ascending", "descending"] : WAYS;
      const way = first[(first.indexOf(head.getAttribute("aria-sort") ?? "none") + 1) % first.length];
      for (const other of heads) other.removeAttribute("aria-sort");
      if (way !== "none") head.setAttribute("aria-sort", way);
      sortTable(table, head, way);
    });
  }
}

/* handing out */

function columnsOf(table) {
  const rows = [...table.tBodies].flatMap(body => [...body.rows]).filter(row => !row.matches(".group"));
  const lines = [...rows, ...(table.tFoot?.getAttribute("aria-hidden") ? [] : table.tFoot?.rows ?? [])];
  const columns = [];
  if (lines.some(row => row.dataset.group !== undefined)) {
    columns.push({name: "group", text: true, of: row => row.dataset.group ?? ""});
  }
  for (const head of table.tHead.querySelectorAll("th[data-sort]")) {
    const at = head.cellIndex;
    const name = head.dataset.name ?? plain(head);
    const text = head.dataset.sort === "text";
    const column = {name, text, at, p: head.dataset.kind === "p", parts: []};
    column.of = row => row.cells[at].dataset.text ?? (text ? plain(row.cells[at]) : row.cells[at].dataset.value ?? "");
    for (const part of ["lo", "hi", "beside"]) {
      if (lines.some(row => row.cells[at].dataset[part] !== undefined)) {
        const called = part === "beside" ? head.dataset.beside ?? `${name}, beside` : `${name}, ${part}`;
        column.parts.push({name: called, aside: part === "beside", of: row => row.cells[at].dataset[part] ?? ""});
      }
    }
    columns.push(column);
  }
  return {lines, columns};
}

function csvField(value, foreign) {
  const number = !foreign && value !== "" && !Number.isNaN(Number(value));
  const text = number ? value.replace("Infinity", "inf") : /^[=+\-@＝＋－＠]/.test(value) ? `'${value}` : value;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function asCsv(table) {
  const {lines, columns} = columnsOf(table);
  const all = columns.flatMap(column => [column, ...(column.parts ?? [])]);
  const notice = document.body.dataset.notice;
  if (notice) all.push({name: "notice", text: true, of: () => notice});
  const head = all.map(column => csvField(column.name, true));
  const rows = lines.map(row => all.map(column => csvField(column.of(row), column.text)));
  return [head, ...rows].map(row => row.join(",") + "\n").join("");
}

function tex(text) {
  return [...text].map(character => TEX[character] ?? character).join("");
}

function texNumber(value, p) {
  const number = numeric(value);
  if (number === null) return "--";
  if (!Number.isFinite(number)) return number > 0 ? "$\\infty$" : "$-\\infty$";
  if (/^-?\d+$/.test(value)) return number < 0 ? `$-$${-number}` : value; // a count
  if (p && number < 0.001) return "$<$0.001";
  return number < 0 ? `$-$${Math.abs(number).toFixed(3)}` : number.toFixed(3);
}

function texCell(column, row) {
  const value = column.of(row);
  const main = column.text || Number.isNaN(Number(value)) ? tex(value) : texNumber(value, column.p);
  const cell = row.cells[column.at];
  if (cell === undefined) return main;
  const {lo, hi, beside} = cell.dataset;
  const limits = lo !== undefined && hi !== undefined ? ` [${texNumber(lo)}, ${texNumber(hi)}]` : "";
  if (!beside) return main + limits;
  return `${main}${limits} (${Number.isNaN(Number(beside)) ? tex(beside) : texNumber(beside)})`;
}

function texHead(column) {
  const aside = (column.parts ?? []).find(part => part.aside);
  return tex(aside ? `${column.name} (${aside.name.replace(/^.*, /, "")})` : column.name);
}

function asTex(table) {
  const {lines, columns} = columnsOf(table);
  const notice = document.body.dataset.notice;
  const shown = columns.map(column => column.text ? "l" : "r").join("");
  return [
    "% needs \\usepackage{booktabs}",
    "\\begin{table}", "\\centering",
    `\\caption{${tex(table.dataset.title)}.${notice ? ` ${tex(notice)}` : ""}}`, `\\label{tab:${table.id}}`,
    `\\begin{tabular}{${shown}}`, "\\toprule",
    `${columns.map(texHead).join(" & ")} \\\\`, "\\midrule",
    ...lines.map(row => `${columns.map(column => texCell(column, row)).join(" & ")} \\\\`),
    "\\bottomrule", "\\end{tabular}", "\\end{table}", "",
  ].join("\n");
}

function exportable(table) {
  const line = made("p", "", {className: "export"});
  for (const [name, ending, render] of [["CSV", "csv", asCsv], ["LaTeX", "tex", asTex]]) {
    const button = made("button", name, {type: "button"});
    button.setAttribute("aria-label", `${name} of ${table.dataset.title}`);
    button.addEventListener("click", () => {
      const link = made("a", "", {download: `${table.id}.${ending}`});
      link.href = URL.createObjectURL(new Blob([render(table)], {type: "text/plain;charset=utf-8"}));
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    });
    line.append(button);
  }
  (table.closest(".scroll") ?? table).after(line);
}

for (const table of document.querySelectorAll("table[data-title]")) {
  sortable(table);
  exportable(table);
}

// SPDX-License-Identifier: MIT
"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const narrow = matchMedia("(max-width: 640px)");
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // The theme's part of a layout, which plotly.js cannot take from a style sheet.
  function themed(layout) {
    const axis = given => ({ gridcolor: colour("--line"), zerolinecolor: colour("--line"), linecolor: colour("--line"),
      automargin: true, ...given });
    const ink = colour("--ink");
    return { ...layout, xaxis: axis(layout.xaxis), yaxis: axis(layout.yaxis),
      font: { color: ink, size: narrow.matches ? 11 : 12, family: "system-ui, sans-serif" },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", margin: { l: 10, r: 10, t: 10, b: 10 },
      hoverlabel: { bgcolor: colour("--panel"), bordercolor: colour("--line"), font: { color: ink }, align: "left" },
      dragmode: narrow.matches ? false : "zoom", autosize: true, showlegend: false };
  }

  // A legend that wraps as text does: plotly.js's own lies on the picture where there is little room.
  function legend(place, data) {
    const list = document.createElement("div");
    list.className = "legend";
    data.forEach((trace, index) => {
      const button = document.createElement("button"), swatch = document.createElement("i");
      swatch.style.background = trace.meta.colour;
      button.append(swatch, trace.meta.words);
      button.setAttribute("aria-pressed", "true");
      button.addEventListener("click", () => {
        const off = button.getAttribute("aria-pressed") === "true";
        button.setAttribute("aria-pressed", String(!off));
        trace.visible = !off;
        Plotly.restyle(place, { visible: !off }, [index]);
      });
      list.append(button);
    });
    place.after(list);
  }

  function draw() {
    for (const place of document.querySelectorAll("[data-figure]")) {
      const { data, layout } = figures[place.dataset.figure];
      Plotly.react(place, data, themed(layout), { responsive: true, displaylogo: false, doubleClick: "reset",
        modeBarButtonsToRemove: ["lasso2d", "select2d"], displayModeBar: narrow.matches ? false : "hover" });
      if (!place.dataset.heard) {
        place.dataset.heard = "yes";
        legend(place, data);
        place.on("plotly_click", event => {
          const to = event.points.map(point => point.customdata).find(name => name && document.getElementById(name));
          if (to) show(to);
        });
      }
    }
  }

  // Brings a row into view, whatever its table is filtered by.
  function show(name) {
    const row = document.getElementById(name);
    if (row) row.hidden = false;
    if (location.hash === "#" + name && row) row.scrollIntoView({ block: "center" });
    location.hash = name;
  }
  addEventListener("hashchange", () => {
    const row = document.getElementById(location.hash.slice(1));
    if (row) { row.hidden = false; row.scrollIntoView({ block: "center" }); }
  });

  const key = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.key === undefined ? cell.textContent : Number(cell.dataset.key);
  };
  // Numbers before words; what is not known stays last in either direction.
  function compare(a, b, sign) {
    if (a === "" || b === "") return (a === "") - (b === "");
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return sign * (typeof a === "number" ? a - b : a.localeCompare(b));
  }
  for (const button of document.querySelectorAll("th button")) {
    button.addEventListener("click", () => {
      const head = button.closest("th"), body = head.closest("table").tBodies[0], column = head.cellIndex;
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const rows = [...body.rows].map(row => [key(row, column), row]);
      rows.sort((a, b) => compare(a[0], b[0], up ? 1 : -1));
      body.append(...rows.map(([, row]) => row));
    });
  }
  for (const input of document.querySelectorAll("input[type=search]")) {
    input.addEventListener("input", () => {
      const wanted = input.value.toLowerCase();
      for (const row of input.closest("section").querySelectorAll("tbody tr"))
        row.hidden = !row.textContent.toLowerCase().includes(wanted);
    });
  }

  draw();
  dark.addEventListener("change", draw);
  narrow.addEventListener("change", draw);
})();

"""The look of the page: one text of CSS, in a light and a dark scheme."""

__all__ = ["CSS"]

_LIGHT = """
  --paper: #fbfaf8; --card: #ffffff; --ink: #1b1e24; --soft: #5b616c; --line: #e3e0da;
  --track: #eceae5; --accent: #2b5c8f; --second: #d29a45; --muted: #b9c4d0;
  --good: #1f7a4d; --good-wash: #e8f4ed; --bad: #b3261e; --bad-wash: #fcebe9;
  --open: #6a6f78; --open-wash: #f1f0ed; --on-dark: #ffffff; --over: #b3261e;
"""

_DARK = """
  --paper: #13161b; --card: #1b1f26; --ink: #e8e9ec; --soft: #a1a8b3; --line: #2e343d;
  --track: #2a3038; --accent: #78ace0; --second: #e0b066; --muted: #4b5a6b;
  --good: #69c795; --good-wash: #17291f; --bad: #ff8a80; --bad-wash: #3a1b1a;
  --open: #a1a8b3; --open-wash: #232830; --on-dark: #10141a; --over: #ff6b5f;
"""

CSS = (
    ":root { color-scheme: light dark;"
    + _LIGHT
    + "}\n@media (prefers-color-scheme: dark) { :root {"
    + _DARK
    + "} }\n"
    + """
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere;
}
main, header, footer { max-width: 68rem; margin: 0 auto; padding: 0 1.5rem; }
header { padding-top: 3rem; }
h1, h2, h3 { line-height: 1.2; font-weight: 650; letter-spacing: -0.012em; margin: 0; }
h1 { font-size: clamp(1.7rem, 5vw, 2.5rem); }
h2 { font-size: 1.35rem; margin-bottom: 0.35rem; }
h3 { font-size: 1rem; }
p { margin: 0.35rem 0; }
code { font: 0.9em/1.4 ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
a { color: inherit; text-decoration-color: var(--muted); text-underline-offset: 0.2em; }
a:hover { text-decoration-color: currentColor; }
.eyebrow {
  font-size: 0.78rem; letter-spacing: 0.09em; text-transform: uppercase; color: var(--soft);
  margin-bottom: 0.5rem;
}
.lead { color: var(--soft); max-width: 46rem; }
.quiet { color: var(--soft); font-size: 0.9rem; }
strong.wrong { color: var(--bad); }
.absent { color: var(--soft); font-style: italic; font-weight: 400; letter-spacing: 0; }
nav { margin: 1.4rem 0 0; border-top: 1px solid var(--line); border-bottom: 1px solid var(--line); }
nav ul { display: flex; flex-wrap: wrap; gap: 0.15rem 1.15rem; margin: 0; padding: 0.6rem 0; }
nav li { list-style: none; font-size: 0.9rem; }
nav a { text-decoration: none; color: var(--soft); }
nav a:hover { color: var(--ink); text-decoration: underline; }
section { margin-top: 3.2rem; scroll-margin-top: 1rem; }
figure { margin: 1rem 0 0; }

.verdicts {
  display: grid; grid-template-columns: repeat(4, minmax(0, 1fr)); gap: 0.75rem; margin-top: 1.4rem;
}
.verdict { border-radius: 0.6rem; padding: 0.75rem 0.95rem; border: 1px solid transparent; }
.verdict strong { display: flex; gap: 0.5rem; align-items: baseline; }
.verdict p { margin: 0.15rem 0 0; font-size: 0.88rem; color: var(--ink); }
.verdict.good { background: var(--good-wash); } .verdict.good strong { color: var(--good); }
.verdict.bad { background: var(--bad-wash); border-color: var(--bad); }
.verdict.bad strong { color: var(--bad); }
.verdict.open { background: var(--open-wash); } .verdict.open strong { color: var(--open); }
.verdict.large { padding: 1.1rem 1.3rem; margin-top: 1rem; }
.verdict.large strong { font-size: 1.2rem; }
.verdict.large p { font-size: 1rem; }

.tiles {
  display: grid; grid-template-columns: repeat(4, minmax(0, 1fr)); gap: 1px; margin: 1rem 0 0;
  background: var(--line); border: 1px solid var(--line);
  border-radius: 0.6rem; overflow: hidden;
}
.tiles div { background: var(--card); padding: 0.9rem 1.05rem; min-width: 0; }
.tiles dt { font-size: 0.85rem; color: var(--soft); }
.tiles dd { margin: 0; }
.tiles .figure { font-size: 1.55rem; line-height: 1.3; font-weight: 620; letter-spacing: -0.02em; }
.tiles .figure .unit {
  font-size: 0.95rem; font-weight: 450; color: var(--soft); letter-spacing: 0;
}
.tiles .figure strong.wrong { color: var(--bad); }
.absent { font-size: 1.05rem; }
.tiles .note { font-size: 0.84rem; color: var(--soft); }
.tiles .bad { color: var(--bad); }

.facts {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr));
  gap: 0 2.6rem; margin: 1rem 0 0;
}
.facts div {
  display: flex; justify-content: space-between; gap: 1rem; padding: 0.38rem 0;
  border-bottom: 1px solid var(--line); font-size: 0.93rem;
}
.facts dt { color: var(--soft); flex: none; max-width: 55%; }
.facts dd { margin: 0; text-align: right; min-width: 0; }

.pipeline {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(14.6rem, 1fr)); row-gap: 1.1rem;
}
.hop {
  display: grid; grid-template-columns: minmax(0, 1fr) 4.4rem; align-items: center; min-width: 0;
}
.edge { text-align: center; font-size: 0.76rem; line-height: 1.25; color: var(--soft); }
.edge .wire { display: block; position: relative; height: 0.9rem; }
.edge .wire::before {
  content: ""; position: absolute; left: 0; right: 0.2rem; top: 50%;
  border-top: 2px solid var(--muted);
}
.edge .wire::after {
  content: ""; position: absolute; right: 0.2rem; top: 50%; width: 0.5rem; height: 0.5rem;
  border: solid var(--muted); border-width: 2px 2px 0 0; transform: translateY(-40%) rotate(45deg);
}
.block {
  background: var(--card); border: 1px solid var(--line); border-top: 3px solid var(--accent);
  border-radius: 0.45rem; padding: 0.65rem 0.75rem; align-self: stretch; min-width: 0;
}
.block.end { border-top-color: var(--second); align-self: center; }
.block.wires {
  border: 1px dashed var(--muted); background: transparent; align-self: center;
}
.block h3 { overflow-wrap: anywhere; }
.block p { margin: 0.1rem 0 0; font-size: 0.83rem; line-height: 1.4; color: var(--soft); }
.block p.cost {
  display: flex; flex-wrap: wrap; gap: 0 0.7rem; color: var(--ink); margin-top: 0.35rem;
}
.block .bar { margin-top: 0.3rem; }

.graph { max-width: 54rem; min-width: fit-content; }
.level {
  display: grid; grid-template-columns: minmax(17rem, 1fr); grid-auto-flow: column;
  grid-auto-columns: auto;
}
.lane { display: grid; min-width: 0; }
.lane.stages { width: 13.5rem; }
.lane.lines { width: 8.5rem; }
.graph .block {
  display: flex; flex-wrap: wrap; align-items: baseline; align-content: center; gap: 0 0.9rem;
  padding: 0.4rem 0.75rem; align-self: stretch;
}
.lane.stages .block { margin: 0 0.6rem; }
.lane.stages h3 { font-size: 0.88rem; }
.graph .block p.cost { margin-top: 0; }
.graph .bar { flex-basis: 100%; }
.passing { display: flex; position: relative; justify-content: center; align-items: center; }
.passing::before {
  content: ""; position: absolute; left: calc(50% - 1px); top: 0; bottom: 0;
  border-left: 2px solid var(--accent);
}
.passing .queue {
  position: relative; background: var(--paper); border: 1px solid var(--accent);
  border-width: 1px 3px; border-radius: 0.2rem; padding: 0.05rem 0.6rem; text-align: center;
  font-size: 0.78rem; line-height: 1.3; color: var(--soft);
}
.queue span { display: block; }

.terms {
  display: grid; grid-template-columns: minmax(0, 10rem) minmax(0, 1fr); gap: 0.5rem 1.5rem;
  margin: 1rem 0 0; font-size: 0.93rem; max-width: 52rem;
}
.terms dt { font-weight: 550; }
.terms dd { margin: 0; color: var(--soft); }

.rows { margin: 1rem 0 0; display: grid; gap: 0.85rem; }
.row {
  display: grid; grid-template-columns: minmax(0, 9.5rem) minmax(0, 1fr) minmax(0, 15.5rem);
  gap: 0.2rem 1rem; align-items: center;
}
.row .name { font-weight: 550; }
.row .name small { display: block; font-weight: 400; color: var(--soft); }
.row .value { font-size: 0.93rem; }
.row .value small { display: block; font-size: 0.86rem; color: var(--soft); }
.row .value.bad { color: var(--bad); font-weight: 620; }
.row .bars { display: grid; gap: 3px; }
.row.sum { border-top: 1px solid var(--line); padding-top: 0.8rem; }
.pair { display: flex; flex-wrap: wrap; gap: 0 0.35rem; line-height: 1.35; }
.legend {
  display: flex; flex-wrap: wrap; gap: 0.25rem 1.2rem; margin: 1rem 0 0; font-size: 0.86rem;
  color: var(--soft);
}
.legend span { display: inline-flex; align-items: center; gap: 0.4rem; }
.legend i { width: 0.85rem; height: 0.85rem; border-radius: 2px; display: inline-block; }
.legend .core, .legend .sparse { background: var(--accent); }
.legend .shell { background: var(--second); }
.legend .dense { background: var(--muted); } .legend .over { background: var(--over); }
.legend .hit { background: var(--accent); } .legend .miss { background: var(--second); }
.legend .limit { width: 2px; background: var(--ink); border-radius: 0; }

svg { display: block; overflow: visible; }
svg text { font-size: 11.5px; fill: var(--soft); }
svg .start { text-anchor: start; }
svg .middle { text-anchor: middle; }
svg .end { text-anchor: end; }
svg .track { fill: var(--track); } svg .axis { fill: var(--muted); }
svg .core, svg .sparse, svg .column { fill: var(--accent); }
svg .turn { fill: var(--accent); fill-opacity: 0.6; }
svg .shell { fill: var(--second); }
svg .dense, svg .column.muted, svg .cached { fill: var(--muted); }
svg .guess { fill: var(--accent); fill-opacity: 0.45; } svg .guess.shell { fill: var(--second); }
svg .over, svg .wrong { fill: var(--over); } svg .right { fill: var(--good); }
svg .way { stroke: var(--muted); stroke-width: 2; } svg .way.beside { stroke: var(--accent); }
svg .said { paint-order: stroke; stroke: var(--paper); stroke-width: 4px; }
svg .head { fill: var(--muted); } svg .head.beside { fill: var(--accent); }
svg .mark { stroke: var(--ink); stroke-width: 2; }
svg .grid { stroke: var(--paper); stroke-width: 1; }
svg .count { fill: var(--ink); } svg .gap { fill: var(--card); }
svg .cell { fill: var(--track); stroke: var(--paper); stroke-width: 1.5; }
svg .hit { fill: var(--accent); } svg .miss { fill: var(--second); }
svg .hit, svg .miss { stroke: var(--paper); stroke-width: 1.5; stroke-opacity: 0; }
svg .inside { text-anchor: middle; fill: var(--ink); }
svg .on-hit { fill: var(--on-dark); font-weight: 600; }
svg .on-miss { fill: #16181c; font-weight: 600; }
svg.many .cell { stroke: none; }
svg.matrix.many { width: min(100%, 34rem); aspect-ratio: 1; shape-rendering: crispEdges; }

.panels {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); gap: 1rem;
  margin-top: 1rem;
}
.panel {
  background: var(--card); border: 1px solid var(--line); border-radius: 0.6rem;
  padding: 0.95rem 1.05rem; min-width: 0;
}
.panel figure { margin-top: 0.6rem; }
.axis-name { text-align: center; font-size: 0.8rem; color: var(--soft); margin: 0; }
.scroll { overflow-x: auto; max-width: 100%; }
.confusion { max-width: 46rem; }

table {
  border-collapse: collapse; width: 100%; font-size: 0.9rem; margin-top: 0.6rem;
  overflow-wrap: normal;
}
th, td {
  text-align: right; padding: 0.34rem 0.55rem; border-bottom: 1px solid var(--line);
  vertical-align: top;
}
th { font-weight: 550; color: var(--soft); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
tbody th { color: var(--ink); white-space: normal; overflow-wrap: anywhere; }
details { margin-top: 0.9rem; }
summary { cursor: pointer; font-size: 0.88rem; color: var(--soft); width: fit-content; }
summary:hover { color: var(--ink); }
.badge {
  display: inline-block; font-size: 0.74rem; line-height: 1.35; padding: 0 0.45rem;
  border-radius: 1rem;
  background: var(--open-wash); color: var(--open); border: 1px solid var(--line);
}
footer { padding-top: 2.5rem; padding-bottom: 3rem; color: var(--soft); font-size: 0.85rem; }

.tiles.one { grid-template-columns: minmax(0, 1fr); max-width: 20rem; }
@media (max-width: 62rem) {
  .tiles, .verdicts { grid-template-columns: repeat(2, minmax(0, 1fr)); }
}
@media (max-width: 40rem) {
  main, header, footer { padding-left: 1.05rem; padding-right: 1.05rem; }
  header { padding-top: 1.6rem; }
  section { margin-top: 2.5rem; }
  .verdicts { grid-template-columns: minmax(0, 1fr); }
  .tiles div { padding: 0.7rem 0.8rem; }
  .tiles .figure { font-size: 1.3rem; }
  .row { grid-template-columns: minmax(0, 1fr); gap: 0.25rem; }
  .terms { grid-template-columns: minmax(0, 1fr); gap: 0.1rem; }
  .terms dd { margin-bottom: 0.6rem; }
  .pipeline { grid-template-columns: minmax(0, 1fr); row-gap: 0; }
  .hop { grid-template-columns: minmax(0, 1fr); }
  .edge {
    display: flex; align-items: center; justify-content: center; gap: 0.6rem; padding: 0.15rem 0;
  }
  .lane.stages { width: 10.5rem; }
  .lane.lines { width: 7.5rem; }
  .edge .wire { width: 1rem; height: 2rem; }
  .edge .wire::before {
    left: 50%; right: auto; top: 0; bottom: 0.2rem; border-top: 0;
    border-left: 2px solid var(--muted); transform: translateX(-1px);
  }
  .edge .wire::after {
    right: auto; left: 50%; top: auto; bottom: 0.2rem; transform: translateX(-50%) rotate(135deg);
  }
  svg.matrix text { font-size: 10px; }
}
@media print {
  :root {"""
    + _LIGHT
    + """}
  nav { display: none; }
  section, .panel, .hop, .level, .row { break-inside: avoid; }
  body { font-size: 12px; }
}
"""
)

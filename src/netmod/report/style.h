// How the page of report_html.cc looks, and its script.
#pragma once

namespace pm {

inline constexpr const char *page_style = R"(
:root { color-scheme: light dark; --paper: #fdfcfa; --ink: #23262b; --soft: #6a6f78; --line: #e2dfd9; --strong: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #17191d; --ink: #e4e3df; --soft: #9599a1; --line: #31343a; --strong: #101114; }
}
body { background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; margin: 2.5rem auto; max-width: 70rem;
  padding: 0 1.5rem; }
h1 { font-size: 1.5rem; font-weight: 600; margin: 0; }
h2 { font-size: 1rem; font-weight: 600; margin: 2.2rem 0 .6rem; }
p { margin: .2rem 0; }
code { font: 14px/1.5 ui-monospace, monospace; overflow-wrap: anywhere; }
.soft, th { color: var(--soft); font-weight: 400; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
.list th, .list td { border-bottom: 1px solid var(--line); padding: .3rem 1.4rem .3rem 0; text-align: left;
  vertical-align: top; }
.list .number { text-align: right; white-space: nowrap; }
.chip { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .5em; background: rgb(var(--c)); }
.bar { display: block; height: 3px; min-width: 1px; margin-left: auto; background: rgb(var(--c)); }
.frame { overflow: auto; padding-bottom: .5rem; }
.matrix { border-collapse: separate; border-spacing: 1px; line-height: 1; }
.matrix td { padding: 0; text-align: center; width: var(--size); min-width: var(--size); height: var(--size);
  font-size: 11px; background: rgb(var(--c) / var(--a, .5)) padding-box; }
.matrix .self { background: none; color: var(--soft); }
.matrix td:hover { outline: 2px solid var(--ink); outline-offset: -1px; }
.matrix tr:hover th:last-of-type { color: var(--ink); }
.matrix th { font-size: 11px; padding: 0 .4em; text-align: right; vertical-align: middle; white-space: nowrap; }
.matrix thead th { padding: .3em 0; text-align: center; vertical-align: bottom; }
.matrix .host { color: var(--ink); max-width: 14em; overflow: hidden; text-overflow: ellipsis; }
.matrix .upright { display: inline-block; writing-mode: vertical-rl; transform: rotate(180deg); max-height: 12em;
  overflow: hidden; text-align: left; }
.matrix .ruler { text-align: left; }
.matrix tbody .ruler { vertical-align: top; }
.matrix .first { border-left: 3px solid transparent; }
.matrix .next > * { border-top: 3px solid transparent; }
.fine { border-spacing: 0; }
.scale { display: inline-block; width: 1.4em; height: .8em; --c: 110 114 122; background: rgb(var(--c) / var(--a)); }
.b0 { --a: .1 } .b1 { --a: .22 } .b2 { --a: .33 } .b3 { --a: .44 } .b4 { --a: .55 } .b5 { --a: .66 } .b6 { --a: .77 }
.b7 { --a: .88 } .b8 { --a: 1 } .b5, .b6, .b7, .b8 { color: var(--strong) }
.unknown { --c: 200 40 40 }
)";

inline constexpr const char *page_script = R"(
const now = document.getElementById('now');
const idle = 'Point at a cell to see its route.';
now.textContent = idle;
document.querySelector('.matrix').addEventListener('mouseover', event => { now.textContent = event.target.title || idle; });
)";

}  // namespace pm

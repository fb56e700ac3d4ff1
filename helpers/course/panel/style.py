"""The panel's style sheet.

Colors follow the page (JupyterLab's variables) or the text (`currentColor`), so that they suit
light and dark themes.
"""

from __future__ import annotations

STYLE = """<style>
.mwl-panel { --mwl-line: var(--jp-border-color2, rgba(128,128,128,.4));
  --mwl-muted: var(--jp-ui-font-color2, currentColor); --mwl-ground: rgba(128,128,128,.10);
  max-width: 940px; box-sizing: border-box; padding: 14px 20px 18px; margin: 4px 0;
  border: 1px solid var(--mwl-line); border-radius: 10px; overflow: visible;
  color: var(--jp-ui-font-color1, inherit); font-size: 13px; line-height: 1.45; }
.mwl-panel .widget-html, .mwl-panel .widget-html-content, .mwl-panel .jupyter-widgets {
  line-height: 1.45; height: auto; color: inherit; }
.mwl-panel .widget-html { margin: 0; overflow: visible; }
.mwl-panel .widget-html-content { width: 100%; align-self: auto; }
.mwl-panel :focus-visible { outline: 2px solid #2f7de1; outline-offset: 2px; }
.mwl-title { display: flex; justify-content: space-between; align-items: center; font-size: 16px;
  font-weight: 600; padding-bottom: 10px; border-bottom: 1px solid var(--mwl-line); }
.mwl-chip { display: inline-flex; align-items: center; gap: 6px; font-size: 12px;
  font-weight: 500; white-space: nowrap; }
.mwl-chip::before { content: ""; width: 8px; height: 8px; border-radius: 50%; flex: none;
  background: var(--mwl-color); }
.mwl-choices { padding-top: 10px; overflow: visible; }
.mwl-field.widget-inline-hbox, .mwl-field { display: flex; flex-direction: column;
  align-items: stretch; height: auto; width: 100%; margin: 0; overflow: visible; }
.mwl-field > .widget-label, .mwl-field > .widget-label-basic { width: auto; max-width: none;
  text-align: left; height: 20px; line-height: 20px; font-size: 12px; padding: 0;
  color: var(--mwl-muted); overflow: visible; margin: 0; flex: none; }
.mwl-field select, .mwl-field input[type=text], .mwl-field input[type=number] { height: 30px;
  width: 100%; max-width: none; margin: 0; flex: none; }
.mwl-panel .mwl-field select { background-repeat: no-repeat; background-size: 5px 5px;
  background-position: right 13px top 12px, right 8px top 12px; background-image:
  linear-gradient(45deg, transparent 50%, currentColor 50%),
  linear-gradient(-45deg, transparent 50%, currentColor 50%); }
.mwl-options { overflow: visible; }
.mwl-options .widget-toggle-button { flex: 1 0 auto; width: auto; min-width: 0; height: 30px;
  line-height: 30px; margin: 0 -1px 0 0; padding: 0 8px; font-size: 12px;
  border: 1px solid var(--mwl-line); background: transparent; color: inherit; box-shadow: none; }
.mwl-options .widget-toggle-button.mod-active { background: #2268c3; border-color: #2268c3;
  color: #fff; }
.mwl-options .widget-toggle-button:last-child { margin-right: 0; }
.mwl-options .widget-toggle-button:disabled { opacity: .5; }
.mwl-options .mwl-blocked:disabled { text-decoration: line-through; }
.mwl-actions { padding: 12px 0 4px; align-items: center; overflow: visible; }
.mwl-actions .jupyter-button { height: 32px; line-height: 32px; width: auto; min-width: 104px;
  padding: 0 16px; margin: 0 8px 0 0; border-radius: 6px; }
.mwl-run.jupyter-button { background: #2268c3; color: #fff; }
.mwl-run.jupyter-button:disabled { opacity: .45; }
.mwl-quiet.jupyter-button { background: transparent; color: inherit; box-shadow: none;
  border: 1px solid var(--mwl-line); border-radius: 6px; }
.mwl-quiet.jupyter-button:disabled { opacity: .4; }
.mwl-quiet.jupyter-button:hover:enabled { background: var(--mwl-ground); box-shadow: none; }
.mwl-quiet.mod-active { background: var(--mwl-ground); }
.mwl-danger.jupyter-button:enabled { color: var(--jp-error-color1, #d64545); }
.mwl-summary { font-variant-numeric: tabular-nums; padding-left: 8px; }
.mwl-message { min-height: 24px; padding-bottom: 4px; }
.mwl-note { font-size: 12px; color: var(--mwl-muted); padding-top: 4px; }
.mwl-warn { color: var(--jp-warn-color0, #b8650a); }
.mwl-error { white-space: pre-wrap; overflow-wrap: anywhere; max-height: 16em; overflow: auto;
  margin: 6px 0 0; padding: 8px 10px; border-left: 3px solid #d64545; font-size: 12px;
  background: var(--mwl-ground); color: inherit; }
.mwl-stacks { max-height: 30em; overflow: auto; padding-top: 4px; font-size: 12px; }
.mwl-stacks details { margin: 2px 0; padding-left: 12px; }
.mwl-stacks summary { cursor: pointer; overflow-wrap: anywhere; }
.mwl-stacks pre { margin: 2px 0 6px; padding: 8px 10px; border-radius: 6px; color: inherit;
  background: var(--mwl-ground); white-space: pre-wrap; overflow-wrap: anywhere; }
.mwl-stacks pre:empty { display: none; }
.mwl-laboratory { border-top: 1px solid var(--mwl-line); margin-top: 12px; padding-top: 10px;
  overflow: visible; }
.mwl-subtitle { font-weight: 600; font-size: 14px; padding-bottom: 6px; }
.mwl-fault-form { align-items: end; overflow: visible; }
.mwl-fault-form .jupyter-button { height: 30px; line-height: 28px; width: auto; margin: 0;
  padding: 0 14px; }
.mwl-asked { padding: 10px 0 4px; max-width: 70em; }
.mwl-story { padding-top: 10px; }
.mwl-story ol { margin: 8px 0 0; padding-left: 24px; }
.mwl-story li { margin: 2px 0; }
.mwl-many { max-height: 420px; overflow: auto; }
.mwl-task { align-items: center; overflow: visible; }
.mwl-task .jupyter-button { width: auto; min-width: 64px; height: 26px; line-height: 24px;
  margin: 0 0 0 6px; padding: 0 10px; font-size: 12px; flex: none; }
.mwl-row { display: grid; grid-template-columns: 146px minmax(60px, 1fr) 76px 122px 106px;
  column-gap: 12px; align-items: center; height: 32px; font-variant-numeric: tabular-nums; }
.mwl-name { font-weight: 600; white-space: nowrap; }
.mwl-badge { font-size: 11px; font-weight: 400; border: 1px solid var(--mwl-line);
  border-radius: 8px; padding: 0 6px; margin-left: 6px; }
.mwl-bar { display: block; height: 10px; border-radius: 5px; overflow: hidden;
  background: rgba(128,128,128,.22); }
.mwl-bar > span { display: block; height: 100%; }
.mwl-number { text-align: right; white-space: nowrap; }
.mwl-label { font-size: 12px; color: var(--mwl-muted); margin-top: 4px; }
.mwl-scroll { display: flex; flex-direction: column-reverse; max-height: 14em; overflow: auto;
  background: var(--mwl-ground); border-radius: 6px; margin-bottom: 6px; }
.mwl-panel pre { font-family: var(--jp-code-font-family, monospace); font-size: 12px; }
.mwl-scroll pre { flex: none; overflow: visible; margin: 0; padding: 8px 10px;
  white-space: pre-wrap; overflow-wrap: break-word; word-break: normal;
  background: transparent; color: inherit; }
.mwl-cluster { padding-top: 12px; }
.mwl-charts { display: flex; flex-wrap: wrap; gap: 16px 20px; padding-top: 12px; }
.mwl-charts > * { flex: 1 1 340px; max-width: 430px; min-width: 0; }
.mwl-runs { width: 100%; border-collapse: collapse; margin-top: 14px; font-size: 12px;
  font-variant-numeric: tabular-nums; }
.mwl-runs caption { text-align: left; font-weight: 600; padding-bottom: 4px; color: inherit; }
.mwl-runs th, .mwl-runs td { text-align: right; padding: 4px 8px; background: none; color: inherit;
  border: 0; border-bottom: 1px solid var(--mwl-line); font-weight: 400; max-width: none; }
.mwl-runs th { color: var(--mwl-muted); }
.mwl-runs th:first-child, .mwl-runs td:first-child { text-align: left; }
.mwl-runs tbody tr { background: none; }
.mwl-panel > .widget-toggle-button { width: auto; height: 28px; line-height: 26px;
  align-self: flex-start; flex: none; margin: 14px 0 6px; padding: 0 12px; font-size: 12px; }
.mwl-code { user-select: all; margin: 2px 0 0; padding: 10px 12px; overflow: auto;
  border-radius: 6px; background: var(--mwl-ground); color: inherit; line-height: 1.5; }
@media (prefers-reduced-motion: no-preference) {
  .mwl-moving .mwl-flow { stroke-dasharray: 6 6; animation: mwl-flow 1s linear infinite; } }
@keyframes mwl-flow { to { stroke-dashoffset: -12; } }
@media (max-width: 720px) {
  .mwl-choices { grid-template-columns: 1fr !important; }
  .mwl-task { flex-wrap: wrap; }
  .mwl-task > .widget-html { flex-basis: 100%; }
  .mwl-row { grid-template-columns: 146px 1fr 76px; height: auto; } }
</style>"""

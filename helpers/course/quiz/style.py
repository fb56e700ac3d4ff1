"""The style sheet of the questions.

Colors follow the page (JupyterLab's variables) or the text (`currentColor`), so that they suit
light and dark themes.
"""

from __future__ import annotations

STYLE = """<style>
.mwl-ask { --mwl-line: var(--jp-border-color2, rgba(128,128,128,.4));
  --mwl-muted: var(--jp-ui-font-color2, currentColor); --mwl-ground: rgba(128,128,128,.10);
  --mwl-right: #2e9e5b; --mwl-wrong: #d64545;
  max-width: 760px; box-sizing: border-box; padding: 4px 2px 12px; overflow: visible;
  color: var(--jp-ui-font-color1, inherit); font-size: 14px; line-height: 1.5; }
.mwl-ask .widget-vbox { overflow: visible; margin: 0; }
.mwl-ask .widget-html, .mwl-ask .widget-html-content { height: auto; margin: 0; overflow: visible;
  line-height: 1.5; font-size: 14px; color: inherit; }
.mwl-ask .widget-html-content { width: 100%; align-self: auto; }
.mwl-ask code { font-family: var(--jp-code-font-family, monospace); font-size: .9em; padding: 0 3px;
  border-radius: 3px; background: var(--mwl-ground); color: inherit; overflow-wrap: anywhere; }
.mwl-ask pre { margin: 8px 0 0; padding: 10px 12px; overflow: auto; border-radius: 6px;
  background: var(--mwl-ground); color: inherit; line-height: 1.5; }
.mwl-ask pre code { padding: 0; background: none; font-size: 13px; overflow-wrap: normal; }
.mwl-ask .mwl-asked { margin: 0; }
.mwl-ask .mwl-tip { margin: 0; color: var(--mwl-muted); }
.mwl-ask .mwl-question { padding-top: 20px; }
.mwl-ask .mwl-choice { display: grid; grid-template-columns: 100%; margin-top: 8px;
  border: 1px solid var(--mwl-line); border-radius: 6px; }
.mwl-ask .mwl-choice > .jupyter-button { grid-area: 1 / 1; width: 100%; height: 100%; margin: 0;
  padding: 0; border: 0; border-radius: 5px; background: transparent; box-shadow: none;
  overflow: hidden; white-space: nowrap; text-indent: 100%; }
.mwl-ask .mwl-choice > .jupyter-button:hover { background: var(--mwl-ground); box-shadow: none; }
.mwl-ask .mwl-choice > .jupyter-button:focus-visible { outline: 2px solid #2f7de1;
  outline-offset: -2px; }
.mwl-ask .mwl-line { grid-area: 1 / 1; z-index: 1; pointer-events: none; padding: 8px 12px; }
.mwl-ask .mwl-line .widget-html-content > div { display: flex; gap: 10px; }
.mwl-ask .mwl-line b { flex: none; color: var(--mwl-muted); }
.mwl-ask .mwl-why { grid-area: 2 / 1; padding: 0 12px 8px 34px; }
.mwl-ask .mwl-is-right { border-color: var(--mwl-right);
  box-shadow: inset 4px 0 var(--mwl-right); }
.mwl-ask .mwl-is-wrong { border-color: var(--mwl-wrong);
  box-shadow: inset 4px 0 var(--mwl-wrong); }
.mwl-ask .mwl-score { margin-top: 18px; font-weight: 600; }
</style>"""

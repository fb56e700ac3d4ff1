"""The style sheet of an experiment. Colors are those of the page (JupyterLab's variables) or of
the text (`currentColor`), so that a light and a dark theme both suit."""

from __future__ import annotations

STYLE = """<style>
.mwl-experiment { --mwl-line: var(--jp-border-color2, rgba(128,128,128,.4));
  max-width: 804px; box-sizing: border-box; padding: 14px 20px 16px; margin: 4px 0;
  border: 1px solid var(--mwl-line); border-radius: 10px; overflow: visible;
  color: var(--jp-ui-font-color1, inherit); font-size: 13px; line-height: 1.45; }
.mwl-experiment .widget-html, .mwl-experiment .widget-html-content {
  height: auto; width: auto; margin: 0; color: inherit; line-height: 1.45; font-size: 13px;
  overflow: visible; flex: 1 1 auto; min-width: 0; }
.mwl-experiment :focus-visible { outline: 2px solid #2f7de1; outline-offset: 2px; }
.mwl-experiment-title { font-size: 15px; font-weight: 600; padding-bottom: 8px;
  border-bottom: 1px solid var(--mwl-line); }
.mwl-controls { padding: 10px 0 2px; overflow: visible; }
.mwl-controls > .widget-inline-hbox, .mwl-controls > .widget-toggle-buttons { display: flex;
  flex-flow: row wrap; height: auto; margin: 0; padding: 0; align-items: center;
  align-content: flex-start; overflow: visible; min-width: 0; }
.mwl-controls > * > .widget-label { flex: 0 0 100%; width: 100%; max-width: none; height: auto;
  margin: 0; padding: 0; text-align: left; white-space: normal; line-height: 18px;
  font-size: 12px; font-variant-numeric: tabular-nums; color: inherit; }
.mwl-controls .slider-container { display: flex; align-items: center; flex: 1 1 100px;
  height: 26px; min-width: 0; margin: 0 8px; }
.mwl-controls .slider-container > .slider { flex: 1 1 auto; min-width: 0; margin: 0; }
.mwl-controls .widget-toggle-buttons, .mwl-controls .jupyter-button { min-width: 0; }
.mwl-controls .widget-toggle-button { width: auto; height: 28px; line-height: 26px;
  margin: 2px 6px 2px 0; padding: 0 12px; font-size: 12px; border-radius: 6px; box-shadow: none;
  border: 1px solid var(--mwl-line); background: transparent; color: inherit; }
.mwl-controls .widget-toggle-button.mod-active { background: #2268c3; border-color: #2268c3;
  color: #fff; }
.mwl-experiment-picture { padding: 8px 0 4px; }
.mwl-experiment-sentence { padding: 8px 12px; border-radius: 6px; min-height: 3em;
  background: rgba(128,128,128,.10); font-variant-numeric: tabular-nums; }
</style>"""

"""How the report looks: plain CSS, light and dark, nothing fetched from elsewhere, no scripts."""

STYLE = """
:root { color-scheme: light dark; --ink: #1b2130; --soft: #6a7486; --line: #dde2ea; --bar: #4f7ccf; --bad: #d2574f;
  --good: #2f9467; --page: #fcfcfd; --card: #f3f5f9; --mark: #e5a53c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7eaf0; --soft: #98a3b5; --line: #313846; --bar: #7aa3f0;
  --bad: #ee7f78; --good: #5cc395; --page: #12151b; --card: #1b2029; --mark: #e9b65b; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; color: var(--ink); background: var(--page);
  max-width: 1280px; margin: 0 auto; padding: 2.4rem 1.4rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; letter-spacing: -.01em; margin: 0 0 .2rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 3rem 0 .3rem; } h3 { font-size: .95rem; margin: 1.6rem 0 .5rem; }
p { margin: .3rem 0 .8rem; } a { color: inherit; } code { font-size: .9em; }
.soft { color: var(--soft); } .number { font-variant-numeric: tabular-nums; text-align: right; }
nav { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; margin: 1rem 0 0; font-size: .88rem; }
nav a { color: var(--soft); text-decoration: none; border-bottom: 1px solid var(--line); }
nav a:hover { color: var(--ink); border-color: var(--bar); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(165px, 1fr)); gap: .8rem; margin: 1.6rem 0 0; }
.tile { background: var(--card); border-radius: 10px; padding: .8rem 1rem; }
.tile b { display: block; font-size: 1.55rem; line-height: 1.25; font-weight: 650; font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: .85rem; }
.warning { border-left: 4px solid var(--mark); border-radius: 4px; padding: .5rem .9rem; background: var(--card);
  margin: .8rem 0; }
.funnel { display: grid; grid-template-columns: max-content 1fr max-content max-content; gap: .35rem .9rem;
  align-items: center; font-size: .92rem; margin-top: .8rem; }
.track { display: flex; height: 1rem; border-radius: 4px; background: var(--card); overflow: hidden; }
.track i { background: var(--bar); } .track i.bad { background: var(--bad); min-width: 2px; }
.minus { color: var(--bad); }
.draws { position: sticky; top: 0; z-index: 1; display: flex; gap: .4rem; align-items: center; padding: .6rem 0;
  background: var(--page); font-size: .9rem; }
.hidden { position: absolute; opacity: 0; pointer-events: none; }
.draws label { cursor: pointer; border: 1px solid var(--line); border-radius: 99px; padding: .1rem .8rem;
  color: var(--soft); }
.sheet { display: grid; grid-template-columns: repeat(auto-fill, minmax(186px, 1fr)); gap: .9rem; }
figure { margin: 0; background: var(--card); border-radius: 10px; padding: 10px; overflow-wrap: anywhere; }
figure img { display: block; margin: 0 auto; max-width: 100%; border-radius: 5px; transition: transform .25s; }
figcaption { font-size: .8rem; line-height: 1.4; margin-top: .5rem; } figcaption .soft { font-size: .92em; }
.draw { display: none; margin: 0; }
.pair { display: flex; gap: 8px; justify-content: center; align-items: center; }
.pair img { max-width: 48%; margin: 0; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(330px, 1fr));
  gap: 1.6rem 2rem; margin-top: 1rem; }
.charts p { margin: 0 0 .3rem; font-size: .9rem; } svg { display: block; width: 100%; height: auto; overflow: visible; }
svg text { font-size: 10.5px; fill: var(--soft); } svg rect { fill: var(--bar); } svg rect:hover { fill: var(--mark); }
svg .axis { stroke: var(--line); } svg .limit { stroke: var(--bad); stroke-dasharray: 4 3; stroke-width: 1.3; }
.chips span { display: inline-block; background: var(--card); border-radius: 5px; padding: .05rem .5rem;
  margin: 0 .25rem .3rem 0; font-size: .88rem; }
.chips .gone { color: var(--bad); text-decoration: line-through; } .chips .new { color: var(--good); font-weight: 600; }
.change { display: grid; grid-template-columns: 7.5rem 1fr; gap: .1rem .8rem; border-top: 1px solid var(--line);
  padding: .7rem 0 .4rem; } .change small { color: var(--soft); padding-top: .15rem; }
.change .name { grid-column: 1 / -1; font-size: .82rem; color: var(--soft); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; } td, th { text-align: left; padding: .2rem .9rem .2rem 0;
  border-bottom: 1px solid var(--line); overflow-wrap: anywhere; font-weight: 400; }
.heat td, .heat th { border: 0; padding: 2px; text-align: center; } .heat th.row { text-align: right;
  padding-right: .6rem; white-space: nowrap; } .heat th.column { height: 7.5rem; vertical-align: bottom; }
.heat th.column div { writing-mode: vertical-rl; transform: rotate(180deg); margin: 0 auto; max-height: 7.2rem;
  overflow: hidden; white-space: nowrap; } .heat td div { width: 2rem; height: 1.7rem; border-radius: 3px;
  font-size: .72rem;
  line-height: 1.7rem; font-variant-numeric: tabular-nums; }
.group { display: inline-flex; gap: 6px; background: var(--card); border-radius: 10px; padding: 8px;
  margin: 0 .6rem .6rem 0; }
.group img { border-radius: 4px; display: block; }
details { margin: .35rem 0; } summary { cursor: pointer; }
"""


def draw_rules(count: int) -> str:
    """The rules by which a choice among `count` draws shows its caption and mirrors its pictures."""
    rules = []
    for draw in range(count):
        chosen = f"#draw{draw}:checked ~"
        rules.append(f"{chosen} .sheet .draw{draw} {{ display: block; }}")
        rules.append(f"{chosen} .sheet .turned{draw} img {{ transform: scaleX(-1); }}")
        rules.append(f"{chosen} .draws label[for=draw{draw}] {{ background: var(--bar); color: var(--page); }}")
    return "\n".join(rules)

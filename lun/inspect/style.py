"""What the report of pictures has beside the look of all pages: plain CSS, no scripts."""

STYLE = """
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
.draw { display: none; margin: 0; }
.pair { display: flex; gap: 8px; justify-content: center; align-items: center; }
.pair img { max-width: 48%; margin: 0; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(330px, 1fr));
  gap: 1.6rem 2rem; margin-top: 1rem; }
.charts p { margin: 0 0 .3rem; font-size: .9rem; } svg { display: block; width: 100%; height: auto; overflow: visible; }
svg text { font-size: 10.5px; fill: var(--soft); } svg rect { fill: var(--bar); } svg rect:hover { fill: var(--mark); }
svg .axis { stroke: var(--line); } svg .limit { stroke: var(--bad); stroke-dasharray: 4 3; stroke-width: 1.3; }
.chips .gone { color: var(--bad); text-decoration: line-through; } .chips .new { color: var(--good); font-weight: 600; }
.change { display: grid; grid-template-columns: 7.5rem 1fr; gap: .1rem .8rem; border-top: 1px solid var(--line);
  padding: .7rem 0 .4rem; } .change small { color: var(--soft); padding-top: .15rem; }
.change .name { grid-column: 1 / -1; font-size: .82rem; color: var(--soft); }
.heat td, .heat th { border: 0; padding: 2px; text-align: center; } .heat th.row { text-align: right;
  padding-right: .6rem; white-space: nowrap; } .heat th.column { height: 7.5rem; vertical-align: bottom; }
.heat th.column div { writing-mode: vertical-rl; transform: rotate(180deg); margin: 0 auto; max-height: 7.2rem;
  overflow: hidden; white-space: nowrap; } .heat td div { width: 2rem; height: 1.7rem; border-radius: 3px;
  font-size: .72rem;
  line-height: 1.7rem; font-variant-numeric: tabular-nums; }
.group { display: inline-flex; gap: 6px; background: var(--card); border-radius: 10px; padding: 8px;
  margin: 0 .6rem .6rem 0; }
.group img { border-radius: 4px; display: block; }
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

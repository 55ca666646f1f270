/** The style sheet. */

import { INKS } from "./colours.js";

export const FONT =
  'ui-sans-serif, system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, "Noto Sans", "Liberation Sans", "DejaVu Sans", sans-serif';

const inks = (theme) =>
  Object.entries(INKS[theme])
    .map(([role, colour]) => `--${role}:${colour};`)
    .join("");

export const STYLE = `
:host{display:block}
.explorer{${inks("light")}color-scheme:light;color:var(--ink);background:var(--paper);font:14px/1.45 ${FONT};padding:12px 14px;
  border:1px solid var(--rule);border-radius:10px;container-type:inline-size}
.explorer[aria-busy] .status::after{content:" …"}
.answers,.heads,.chosen-head,.strips,.latent,aside .card{transition:opacity .1s}
.explorer[aria-busy] :is(.answers,.heads,.chosen-head,.strips,.latent,aside .card){opacity:.45}
.explorer[data-theme=dark]{${inks("dark")}color-scheme:dark}
*{box-sizing:border-box}
[hidden]{display:none!important}
h2{font-size:14px;margin:0 0 6px}
h3{font-size:13px;margin:8px 0 2px}
p{margin:4px 0}
figure{margin:0}
.soft{color:var(--soft)}
.number{white-space:nowrap;font-variant-numeric:tabular-nums;text-align:end}
button,select,input{font:inherit;color:inherit}
button,select,input[type=text]{background:var(--paper);border:1px solid var(--border);border-radius:6px;padding:3px 9px;min-height:28px}
button{cursor:pointer}
button:hover:not(:disabled){border-color:var(--accent)}
button:disabled{opacity:.5;cursor:default}
button.toggle[aria-pressed=true]{background:var(--chip);border-color:var(--accent);color:var(--ink);box-shadow:inset 0 -2px var(--accent)}
.segments button[aria-pressed=true]{background:var(--accent);border-color:var(--accent);color:var(--paper)}
:focus-visible{outline:2px solid var(--accent);outline-offset:1px}
.bar{display:flex;flex-wrap:wrap;gap:6px 12px;align-items:center;padding-bottom:10px;border-bottom:1px solid var(--rule)}
.bar label,.models,.group,.segments,.controls{display:inline-flex;flex-wrap:wrap;gap:4px;align-items:center}
.item select{max-width:min(26ch,60vw)}
select{max-width:100%}
.texts{display:flex;flex:1 1 240px;gap:4px;flex-wrap:wrap}
.texts input{flex:1 1 160px;min-width:0}
.menu{position:relative}
.menu summary{cursor:pointer;list-style:none;padding:3px 6px;border-radius:6px}
.menu>div{position:absolute;inset-inline-end:0;z-index:5;display:grid;gap:4px;padding:8px;background:var(--paper);
  border:1px solid var(--rule);border-radius:8px;box-shadow:0 6px 20px #0003;min-width:max-content}
.columns{display:grid;grid-template-columns:280px fit-content(460px) minmax(300px,1fr);gap:18px;margin-top:10px;align-items:start}
aside{display:flex;flex-direction:column;gap:12px}
.question{font-size:24px;font-weight:700;line-height:1.2;overflow-wrap:anywhere}
.verdict{font-size:20px;margin:2px 0 10px;background:var(--paper)}
.verdict p{margin:0}
.verdict .flipped strong{color:var(--edit)}
.completion{position:absolute;top:2px;padding:3px 8px;border:1.5px dashed var(--accent);border-radius:6px;color:var(--accent);white-space:nowrap}
.primary{background:var(--accent);border-color:var(--accent);color:var(--paper);font-weight:700;padding:5px 14px}
.card{border:1px solid var(--rule);border-radius:8px;padding:10px 12px;background:var(--paper)}
.scroll{overflow-x:auto;padding:2px 14px;
  mask-image:linear-gradient(to right,transparent,#000 14px,#000 calc(100% - 14px),transparent)}
.line{position:relative;margin:0 auto}
.upright{display:flex;justify-content:center;width:max-content;min-width:100%}
.upright>*{flex:none}
.upright .outcomes{width:46px;height:auto}
.upright .outcomes span{inset-inline-start:4px;transform:translateY(-50%)}
.upright .bars{width:40px;height:auto;border:0;border-inline-start:1px solid var(--rule)}
.upright .brackets{margin:0 0 0 8px}
.upright .phrase{writing-mode:vertical-rl;padding:2px 0}
.relations{position:relative;font-size:11px;color:var(--soft)}
.relations span{position:absolute;display:flex;align-items:center}
.arcs{display:block;overflow:visible;user-select:none;font-family:${FONT}}
.grip{pointer-events:stroke;cursor:grab;touch-action:none}
.arcs text{pointer-events:none}
.arc.lifted{opacity:.35}
.arc:has(.grip:hover)>path:first-child{stroke-width:2.6}
.words{position:relative;height:34px;user-select:none}
.word{position:absolute;top:2px;height:30px;padding:0;font-size:15px;border-color:transparent;white-space:nowrap;touch-action:pan-x pan-y}
.word.unknown bdi{text-decoration:underline wavy var(--error) 1px;text-underline-offset:3px}
.word.spot{border-color:var(--ink)}
.word[aria-pressed=true]{border:2px solid var(--ink)}
.word.hand{border:2px solid var(--edit);font-weight:700}
.word.off{color:var(--soft);text-decoration:line-through;cursor:not-allowed}
.outcomes{position:relative;height:16px;font-size:11px;font-variant-numeric:tabular-nums;user-select:none}
.outcomes span{position:absolute;transform:translateX(-50%);padding:0 1px;border-radius:3px;line-height:15px}
.outcomes .flips{background:var(--edit);color:var(--paper);font-weight:700}
.outcomes .spot{outline:1.5px solid var(--ink)}
.word.key{outline:2px dashed var(--accent)}
.word.chosen{border:2px dashed var(--accent)}
.bars{position:relative;height:40px;border-top:1px solid var(--rule)}
.bars i{position:absolute;border-radius:2px 2px 0 0;background:var(--raises)}
.bars i.bar-down{background:var(--lowers);border-radius:0 0 2px 2px}
.weights{display:block;overflow:visible}
.weights .dim{opacity:.08}
.examples summary{cursor:pointer;font-weight:700;padding:6px 0}
.examples .table{overflow:auto;max-height:420px}
.examples th button{min-width:0}
.examples tbody th{white-space:normal;min-width:240px;max-width:60ch}
.examples tr.shown th{box-shadow:inset 3px 0 var(--accent)}
.bars-note{font-size:12px;color:var(--soft);min-height:18px}
.brackets{position:relative;margin-top:6px}
.phrase{position:absolute;min-height:0;padding:0 2px;font-size:12px;line-height:16px;overflow:clip;background:var(--chip);border-radius:5px}
.notes{display:flex;margin-top:8px;flex-wrap:wrap;gap:6px;align-items:center;margin-bottom:6px}
.chip{background:var(--chip);border-radius:999px;padding:2px 10px;font-size:13px}
.doubtful{outline:1px dashed var(--error)}
.doubtful::before{content:"⚠ "}
.prompt{min-height:34px;display:flex;flex-wrap:wrap;gap:6px;align-items:center;margin-top:4px}
.prompt form{display:flex;flex-wrap:wrap;gap:6px;align-items:center}
.status{min-height:22px;font-weight:700;overflow-wrap:anywhere}
.status.error{color:var(--error)}
.status.error::before{content:"⚠ "}
.answers{display:grid;grid-template-columns:fit-content(38%) minmax(32px,1fr) auto auto;column-gap:8px}
.answers>*{grid-column:1/-1}
.classes{display:grid;grid-template-columns:subgrid;row-gap:4px;align-items:center}
.class.long{overflow-wrap:anywhere}
.bar-box{contain:layout style;position:relative;height:14px;background:var(--chip);border-radius:3px;forced-color-adjust:none}
.bar-box i{position:absolute;inset-block:0;inset-inline-start:0;background:var(--accent);border-radius:3px}
.bar-box b{position:absolute;inset-block:-3px;width:2px;background:var(--ink)}
.line-button{display:flex;width:100%;justify-content:space-between;gap:8px;border-color:transparent;text-align:start;overflow-wrap:anywhere}
.score{font-size:20px}
.heads{margin-top:8px}
.controls{display:flex;gap:6px 14px}
.controls label{min-width:0;max-width:100%}
.segments button{border-radius:0;margin-inline-start:-5px}
.segments button:first-of-type{border-radius:6px 0 0 6px;margin-inline-start:0}
.segments button:last-of-type{border-radius:0 6px 6px 0}
.legend{display:flex;flex-wrap:wrap;gap:4px 10px;align-items:center;font-size:13px}
.ramp{display:inline-block;width:120px;height:12px;border:1px solid var(--rule);forced-color-adjust:none}
.swatch{display:inline-block;width:13px;height:13px;margin-inline-end:4px;vertical-align:-2px;border:1px solid var(--rule)}
.hatch{background:repeating-linear-gradient(135deg,var(--hatch) 0 1px,transparent 1px 4px)}
.framed{border:1px solid #14171c;outline:1px solid #fff;outline-offset:-2px;background:#48a4ca}
.pair{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1fr);gap:14px}
.grid{display:flex;flex-wrap:wrap;gap:10px 12px;align-items:flex-end}
.head{max-width:100%}
.title{display:flex;flex-wrap:wrap;width:100%;justify-content:space-between;gap:0 6px;border-color:transparent;padding:2px 2px;text-align:start;font-size:13px;overflow-wrap:anywhere}
.chosen .title{text-decoration:underline 2px var(--accent);text-underline-offset:3px}
.moved .title{font-weight:700}
.matrix{position:relative;line-height:0;max-width:100%}
.matrix canvas{max-width:100%;forced-color-adjust:none;border-radius:2px;outline:1px solid var(--rule)}
.frame{position:absolute;inset-inline:-2px;border:2px solid var(--ink);pointer-events:none}
.echo{min-height:20px;font-size:12px;color:var(--soft);overflow-wrap:anywhere}
.chosen-head{margin-top:12px}
.large{display:inline-grid;grid-template-columns:auto auto;gap:3px;max-width:100%;overflow-x:auto;padding:0 3px 3px 0}
.column-names{display:flex;align-items:end}
.column-names bdi,.row-names bdi{white-space:nowrap;overflow:hidden;text-overflow:ellipsis}
.column-names bdi{writing-mode:vertical-rl;transform:rotate(180deg);max-height:130px}
.column-names .upright{transform:none}
.row-names bdi{display:block;max-width:130px;text-align:end}
table{border-collapse:collapse;font-size:12px}
caption{text-align:start;color:var(--soft)}
th,td{padding:2px 6px;border-bottom:1px solid var(--rule);font-weight:400;text-align:start;white-space:nowrap}
td.number{text-align:end}
.strips{margin-top:14px}
.units{display:flex;flex-wrap:wrap;gap:6px 4px;margin:4px 0 10px}
.unit{display:inline-flex;flex-direction:column;align-items:center;font-size:12px;min-width:22px}
.well{contain:size layout style;position:relative;width:14px;height:30px;background:var(--chip);border-radius:2px;forced-color-adjust:none}
.well i{position:absolute;inset-inline:0;bottom:0;background:var(--accent);border-radius:2px}
.well b{position:absolute;inset-inline:-3px;height:2px;background:var(--ink)}
.latent svg{font-family:${FONT};display:block}
.trees:has(.upright) .prompt{position:sticky;bottom:0;z-index:3;background:var(--paper);padding:4px 0}
@container (min-width:1061px){
  .body:has(.upright){display:grid;grid-template:auto 1fr/minmax(360px,auto) minmax(0,1fr);column-gap:18px}
  .body:has(.upright) .trees{grid-row:1/3;max-width:560px}
  .body:has(.upright) .columns{position:sticky;top:8px;align-self:start;grid-template-columns:280px minmax(0,1fr)}
  .body:has(.upright) .heads{grid-column:1/-1}
}
@container (max-width:1060px){.columns{grid-template-columns:300px minmax(0,1fr)}.heads{grid-column:1/-1}}
@container (max-width:760px){
  .columns{grid-template-columns:minmax(0,1fr)}
  .question{font-size:18px}
  .title-card{display:contents}
  .verdict{font-size:15px;position:sticky;top:0;z-index:4}
  button,select,input,summary{scroll-margin-top:90px}
}
@media (pointer:coarse){
  .words{height:48px}
  .word{height:44px;top:2px}
  button,select,input[type=text],.menu summary{min-height:44px}
}
@media (forced-colors:active){
  .title{margin-bottom:4px}
  .word.spot,.word[aria-pressed=true],.word.hand{border-color:Highlight}
  .bars i,.arcs path,.swatch{forced-color-adjust:none}
  .segments button[aria-pressed=true],button.toggle[aria-pressed=true]{forced-color-adjust:none;background:Highlight;color:HighlightText}
}
`;

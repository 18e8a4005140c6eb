// How many features of how many a layer's map shows: its tiles tell in their headers, which MapLibre hands on to nobody.
// So its tiles are asked for here, and what they told is summed up for those in view.
"use strict";

const COUNTED = "counted://";
const toldBy = new Map(); // what each tile told, by its address

async function countedTile({ url }, { signal }) {
  const address = url.slice(COUNTED.length);
  const answer = await fetch(address, { signal });
  if (!answer.ok) throw Object.assign(new Error(`a tile was answered ${answer.status}`), { status: answer.status });
  const [shown, matched] = ["Shown", "Matched"].map((name) => answer.headers.get(`Cairn-Features-${name}`) ?? "0");
  toldBy.set(address, { shown: parseInt(shown, 10), matched: parseInt(matched, 10), isAbout: matched.endsWith(";about") });
  return { data: await answer.arrayBuffer() };
}

// The addresses of the tiles that a map shows, each once however often the world is repeated.
function inView(map, template, most) {
  const z = Math.max(0, Math.min(most, Math.floor(map.getZoom())));
  const side = 2 ** z;
  const view = map.getBounds();
  const column = (longitude) => Math.floor(((longitude + 180) / 360) * side);
  const down = (latitude) => (1 - Math.asinh(Math.tan((latitude * Math.PI) / 180)) / Math.PI) / 2;
  const row = (latitude) => Math.min(side - 1, Math.max(0, Math.floor(down(latitude) * side)));
  const found = new Set();
  for (let x = column(view.getWest()); x <= column(view.getEast()); x += 1) {
    for (let y = row(view.getNorth()); y <= row(view.getSouth()); y += 1) {
      const around = ((x % side) + side) % side;
      found.add(template.replace("{z}", z).replace("{x}", around).replace("{y}", y));
    }
  }
  return [...found];
}

// One that lies on a border is counted in both tiles, so several tiles together tell about how many there are.
function sentence(tiles) {
  const sum = (name) => tiles.reduce((total, each) => total + each[name], 0).toLocaleString("en-GB");
  const [shown, matched] = [sum("shown"), sum("matched")];
  if (shown === matched) return matched === "0" ? "" : "All features in view are shown.";
  const about = tiles.filter((each) => each.matched).length > 1 || tiles.some((each) => each.isAbout) ? "About " : "";
  return `${about}${shown} of ${matched} features in view are shown, spread evenly. Zoom in to see the others.`;
}

function sayHowMany(map, template, most) {
  const place = document.getElementById("map-features");
  place.textContent = sentence(inView(map, template, most).map((address) => toldBy.get(address)).filter(Boolean));
  place.hidden = !place.textContent;
}

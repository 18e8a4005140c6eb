// The map of a version: its tiles beside those of what is served, divided by a slider; its outline; a plain basemap.
"use strict";

const facts = () => document.getElementById("map-data");
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const MOST_ZOOM = 18; // of a layer's tiles; nearer, those are drawn larger
let maps = [];
let stamp = "";

function basemap() {
  const { base, footprint } = facts().dataset;
  return {
    version: 8,
    sources: {
      land: { type: "geojson", data: base },
      footprint: { type: "geojson", data: footprint },
    },
    layers: [
      { id: "water", type: "background", paint: { "background-color": colour("--water") } },
      { id: "land", type: "fill", source: "land", paint: { "fill-color": colour("--land") } },
      { id: "borders", type: "line", source: "land", paint: { "line-color": colour("--border"), "line-width": 0.8 } },
    ],
  };
}

// West, south, east, north. East is beyond 180 where the data lies across the antimeridian.
function extent() {
  const [west, south, east, north] = facts().dataset.bounds.split(",").map(Number);
  return { west, south, east, north, isAcross: east > 180 };
}

// Where tiles are asked for. Bounds of a source end at the antimeridian: what lies across it is asked for all around.
function reach() {
  const { west, south, east, north, isAcross } = extent();
  return isAcross ? [-180, south, 180, north] : [west, south, east, north];
}

function withTiles(style, tiles) {
  const { kind, staged } = facts().dataset;
  const address = window.location.origin + tiles;
  const where = tiles === staged ? { bounds: reach() } : {};
  if (kind === "vector") {
    style.sources.data = { type: "vector", tiles: [COUNTED + address], maxzoom: MOST_ZOOM, ...where };
    const common = { source: "data", "source-layer": "default" };
    const of = (type) => ["==", ["geometry-type"], type];
    style.layers.push(
      { id: "areas", type: "fill", ...common, filter: of("Polygon"), paint: { "fill-color": colour("--data"), "fill-opacity": 0.35 } },
      { id: "lines", type: "line", ...common, filter: ["!=", ["geometry-type"], "Point"], paint: { "line-color": colour("--data"), "line-width": 1.6 } },
      { id: "points", type: "circle", ...common, filter: of("Point"), paint: { "circle-color": colour("--data"), "circle-radius": 4 } },
    );
  } else {
    style.sources.data = { type: "raster", tiles: [address], tileSize: 256, maxzoom: 22, ...where };
    style.layers.push({ id: "data", type: "raster", source: "data", paint: { "raster-fade-duration": 0 } });
  }
  return style;
}

function withOutline(style) {
  style.layers.push({ id: "outline", type: "line", source: "footprint", paint: { "line-color": colour("--accent"), "line-width": 1.5, "line-dasharray": [3, 2] } });
  return style;
}

function make(place, tiles, label) {
  const { west, south, east, north, isAcross } = extent();
  const made = new maplibregl.Map({
    container: place,
    style: withOutline(tiles ? withTiles(basemap(), tiles) : basemap()),
    bounds: [[west, south], [east, north]],
    fitBoundsOptions: { padding: 24 },
    attributionControl: false,
    renderWorldCopies: isAcross, // a map of one world alone cannot be looked at across its edge
    dragRotate: false,
    pitchWithRotate: false,
    locale: { "Map.Title": label },
  });
  made.touchZoomRotate.disableRotation();
  made.on("error", ({ error }) => { tell(tiles === facts().dataset.staged && error?.url); });
  made.once("idle", () => { place.dataset.idle = "yes"; });
  return made;
}

// Says that something is missing; of the version that is looked at also why, in the server's own words, and says it
// again to whoever is about to approve.
let asked = "";
let reason = "";

async function tell(address) {
  const note = document.getElementById("map-trouble");
  note.hidden = false;
  const own = address && new URL(address, window.location.origin);
  if (!own || own.origin !== window.location.origin || !own.pathname.startsWith("/tiles/") || asked === stamp) return;
  asked = stamp;
  const answer = await fetch(own).catch(() => null);
  if (!answer || answer.status !== 422) return;
  const { detail } = await answer.json().catch(() => ({}));
  if (!detail) return;
  reason = `The map cannot be drawn. ${detail}`;
  note.textContent = reason;
  repeat();
}

function repeat() {
  for (const place of document.querySelectorAll("[data-map-trouble]")) {
    place.textContent = reason;
    place.hidden = false;
  }
}

// Two maps look at the same place, whichever of them is moved.
function tie(one, other) {
  let moving = false;
  const follow = (leader, follower) => leader.on("move", () => {
    if (moving) return;
    moving = true;
    follower.jumpTo({ center: leader.getCenter(), zoom: leader.getZoom() });
    moving = false;
  });
  follow(one, other);
  follow(other, one);
}

function layer(frame, name) {
  const place = document.createElement("div");
  place.className = `layer ${name}`;
  place.id = `map-${name}`;
  frame.append(place);
  return place;
}

function slider(frame, upper) {
  const input = document.createElement("input");
  Object.assign(input, { type: "range", min: 0, max: 100, value: 50, id: "swipe", className: "swipe" });
  input.setAttribute("aria-label", "How much of the map shows what is served, from the left");
  const line = document.createElement("div");
  line.className = "divider";
  const move = () => {
    upper.style.clipPath = `inset(0 0 0 ${input.value}%)`;
    line.style.left = `${input.value}%`;
  };
  input.addEventListener("input", move);
  frame.append(line, input);
  move();
}

function draw() {
  if (!facts()) return;
  const told = document.getElementById("map-trouble");
  if (facts().dataset.stamp === stamp) {
    if (reason) repeat(); // the page around the map is new
    return;
  }
  stamp = facts().dataset.stamp;
  reason = "";
  for (const each of maps) each.remove();
  maps = [];
  const frame = document.getElementById("map");
  frame.replaceChildren();
  told.hidden = document.getElementById("map-features").hidden = true;
  told.textContent = "Parts of the map could not be loaded.";
  try {
    fill(frame);
  } catch {
    frame.textContent = "This browser cannot draw maps: WebGL is switched off or missing.";
  }
}

function fill(frame) {
  const { kind, staged, latest } = facts().dataset;
  if (latest) maps.push(make(layer(frame, "latest"), latest, "Map of what is served as latest"));
  if (staged || !latest) {
    const upper = layer(frame, "staged");
    maps.push(make(upper, staged, "Map of this version"));
    if (latest) slider(frame, upper);
  }
  if (maps.length === 2) tie(maps[0], maps[1]);
  const top = maps.at(-1);
  const tiles = staged || latest;
  if (kind === "vector" && tiles) top.on("idle", () => sayHowMany(top, window.location.origin + tiles, MOST_ZOOM));
  top.addControl(new maplibregl.NavigationControl({ showCompass: false }), "top-right");
}

document.addEventListener("DOMContentLoaded", () => {
  maplibregl.setWorkerUrl(new URL(facts().dataset.worker, window.location.origin).href);
  maplibregl.addProtocol(COUNTED.replace("://", ""), countedTile);
  draw();
});
document.addEventListener("cairn:changed", draw);

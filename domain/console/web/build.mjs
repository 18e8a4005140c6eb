// Copies what the console's pages load into ../static/vendor, and turns world-atlas into GeoJSON of a flat map.
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { feature } from "topojson-client";

const here = dirname(fileURLToPath(import.meta.url));
const packages = join(here, "node_modules");
const vendor = join(here, "..", "static", "vendor");

rmSync(vendor, { recursive: true, force: true });
mkdirSync(vendor, { recursive: true });
for (const [from, to] of [
  ["htmx.org/dist/htmx.min.js", "htmx.min.js"],
  ["maplibre-gl/dist/maplibre-gl-csp.js", "maplibre-gl.js"],
  ["maplibre-gl/dist/maplibre-gl-csp-worker.js", "maplibre-gl-worker.js"],
  ["maplibre-gl/dist/maplibre-gl.css", "maplibre-gl.css"],
  ["maplibre-gl/LICENSE.txt", "maplibre-gl.LICENSE.txt"],
  ["htmx.org/LICENSE", "htmx.LICENSE.txt"],
]) copyFileSync(join(packages, from), join(vendor, to));

// The atlas knows a globe: rings that cross the 180th meridian jump to the other edge of a flat map. Here they go on
// beyond it, as the map wants them, and one that goes around a pole is closed along it.
function flat(ring) {
  let turn = 0;
  const shifted = ring.map(([lon, lat], place) => {
    const step = place ? lon - ring[place - 1][0] : 0;
    if (Math.abs(step) > 180) turn -= 360 * Math.sign(step);
    return [lon + turn, lat];
  });
  const first = shifted[0];
  const last = shifted.at(-1);
  if (Math.abs(last[0] - first[0]) > 180) shifted.push([last[0], -90], [first[0], -90], first);
  return shifted;
}

const flatten = ({ type, coordinates }) => ({
  type,
  coordinates: type === "Polygon" ? coordinates.map(flat) : coordinates.map((polygon) => polygon.map(flat)),
});
const atlas = JSON.parse(readFileSync(join(packages, "world-atlas/countries-50m.json")));
const countries = feature(atlas, atlas.objects.countries);
const plain = countries.features.map(({ geometry }) => ({ type: "Feature", properties: {}, geometry: flatten(geometry) }));
const rounded = (key, value) => (typeof value === "number" ? Math.round(value * 100) / 100 : value);
writeFileSync(join(vendor, "countries.json"), JSON.stringify({ type: "FeatureCollection", features: plain }, rounded));

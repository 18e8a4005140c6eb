// Copies what the console's pages load into ../static/vendor, and turns world-atlas into plain GeoJSON.
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

const atlas = JSON.parse(readFileSync(join(packages, "world-atlas/countries-50m.json")));
const countries = feature(atlas, atlas.objects.countries);
const plain = countries.features.map(({ geometry }) => ({ type: "Feature", properties: {}, geometry }));
const rounded = (key, value) => (typeof value === "number" ? Math.round(value * 100) / 100 : value);
writeFileSync(join(vendor, "countries.json"), JSON.stringify({ type: "FeatureCollection", features: plain }, rounded));

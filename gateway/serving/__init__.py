"""The serving room: tiles and the catalogue, each byte behind the clearance rule. A process of its own."""

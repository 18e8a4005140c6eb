"""One flow run, from its claim on the attempt to the commit: nodes, items and child runs are carried out here."""

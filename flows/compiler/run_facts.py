"""What a template may know of the run it is rendered in."""

RUN_FACTS = ("id", "request_id", "asset_id", "version_ordinal")

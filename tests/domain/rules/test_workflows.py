"""A version that is published is taken: by the same content it may be named again, by other content never."""

from domain.rules.workflows import reused_versions

PUBLISHED = {("echo", "1"): "a", ("echo", "2"): "b"}


def test_only_other_content_under_a_published_version_is_refused() -> None:
    fine = [("echo", "1", "a"), ("echo", "2", "b"), ("echo", "3", "a"), ("other", "1", "b")]
    assert reused_versions(fine, PUBLISHED) == {}
    refused = reused_versions([("echo", "1", "b"), ("other", "1", "a")], PUBLISHED)
    assert list(refused) == ["echo"]
    assert refused["echo"].startswith("Workflow echo version 1 is published with other content")
    assert refused["echo"].endswith("count up `version`.")

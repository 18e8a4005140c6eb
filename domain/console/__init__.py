"""The reviewers' console: pages made here, for people who are signed in. Decisions are the API's own use cases."""

"""The partners' contract in the words of OGC API – Processes: the same submissions, told another way."""

"""All SQL of the domain, one class per aggregate. Repositories never commit and never decide."""

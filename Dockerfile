# What the console's pages load, from npm; see deployments/setup.sh for the same outside an image.
FROM node:20-slim AS web
WORKDIR /web/console/web
COPY domain/console/web ./
RUN npm ci --ignore-scripts --no-audit --no-fund && node build.mjs

# Service images: `--target domain`, `gateway`, `serving`, `prefect` (its server). Each installs one extra and no more.
FROM python:3.11-slim AS base
RUN useradd --create-home cairn && mkdir /srv/zones && chown cairn /srv/zones
WORKDIR /srv/cairn
COPY pyproject.toml README.md ./
COPY flows ./flows
COPY blocks ./blocks
COPY domain ./domain
COPY gateway ./gateway
COPY deployments ./deployments
COPY benchmarks ./benchmarks
COPY workflows ./workflows
ENV CAIRN_WORKFLOWS_DIR=/srv/cairn/workflows

FROM base AS domain
COPY --from=web /web/console/static/vendor ./domain/console/static/vendor
RUN pip install --no-cache-dir --require-hashes -r deployments/locked/domain.txt
RUN pip install --no-cache-dir --no-deps --no-build-isolation .
USER cairn
CMD ["uvicorn", "--factory", "domain.app:create_app", "--host", "0.0.0.0", "--port", "8001", "--http", "gateway.edge.http_protocol:InsideProtocol"]

FROM base AS gateway
RUN pip install --no-cache-dir --require-hashes -r deployments/locked/gateway.txt
RUN pip install --no-cache-dir --no-deps --no-build-isolation .
USER cairn
CMD ["python", "-m", "gateway", "--host", "0.0.0.0", "--port", "8000"]

FROM base AS serving
RUN pip install --no-cache-dir --require-hashes -r deployments/locked/serving.txt
RUN pip install --no-cache-dir --no-deps --no-build-isolation .
USER cairn
CMD ["uvicorn", "--factory", "gateway.serving.app:create_app", "--host", "0.0.0.0", "--port", "8002", "--no-access-log", "--http", "gateway.edge.http_protocol:InsideProtocol"]

FROM base AS prefect
RUN pip install --no-cache-dir --require-hashes -r deployments/locked/prefect-server.txt
RUN pip install --no-cache-dir --no-deps --no-build-isolation .
USER cairn
CMD ["prefect", "server", "start", "--host", "0.0.0.0", "--port", "4200"]

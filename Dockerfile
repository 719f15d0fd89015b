# The shop of `tenure new` on the Tenure of this tree, for compose.yaml. For an app of yours, `tenure new` writes a smaller one.
FROM python:3.13-slim
WORKDIR /src
COPY requirements/demo.txt requirements/demo.txt
RUN pip install --no-cache-dir --no-deps --require-hashes --only-binary :all: -r requirements/demo.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir --no-deps --no-build-isolation --compile .
RUN tenure new --name shop /app
WORKDIR /app
RUN useradd --create-home --uid 10001 shop
USER 10001
ENV PYTHONUNBUFFERED=1 TENURE_HEALTH_PORT=8901
STOPSIGNAL SIGTERM
HEALTHCHECK --start-period=30s CMD ["tenure", "health", "live"]
CMD ["tenure", "worker", "app:inbox"]

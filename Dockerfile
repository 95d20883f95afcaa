# One image for all five services, the AWS emulator and the embedded cluster; the command chooses.
#   docker build --tag dovetail:local --build-arg COMMIT="$(git rev-parse HEAD)" .
# Behind a proxy with a certificate authority of its own:
#   docker build --secret id=ca_bundle,src=/path/to/ca.pem --tag dovetail:local .
# It needs BuildKit, which Docker 23 and later have on. Without a `syntax` line it asks a registry for its base alone.
ARG BASE_IMAGE=python:3.11-slim

FROM ${BASE_IMAGE} AS build
WORKDIR /build
COPY requirements.lock ./
# What only installs packages, or tests them, stays out of the image.
RUN --mount=type=secret,id=ca_bundle,required=false \
    python3 -m venv /opt/venv \
    && if [ -s /run/secrets/ca_bundle ]; then export PIP_CERT=/run/secrets/ca_bundle; fi \
    && /opt/venv/bin/python -m pip install --no-cache-dir --disable-pip-version-check \
       --require-hashes --requirement requirements.lock \
    && find /opt/venv/lib -type d -name tests -prune -exec rm -r {} + \
    && /opt/venv/bin/python -m pip uninstall --quiet --yes setuptools pip \
    && printf '#!/opt/venv/bin/python\nfrom cli.main import app\n\napp()\n' > /opt/venv/bin/dovetail \
    && chmod 0755 /opt/venv/bin/dovetail

FROM ${BASE_IMAGE}
# The venv's interpreter is a link to this image's own, so both stages must start from the same base.
COPY --from=build /opt/venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONPATH=/app \
    PYTHONUNBUFFERED=1 \
    MALLOC_ARENA_MAX=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    AWS_EC2_METADATA_DISABLED=true
WORKDIR /app
COPY services services
COPY shared shared
COPY local local
COPY cli cli
COPY deploy/crds deploy/crds
COPY deploy/kubernetes deploy/kubernetes
COPY deploy/iam deploy/iam
RUN python -m compileall -q services shared local cli \
    # A named volume that is mounted here takes over this owner: the cluster writes its kubeconfig there.
    && mkdir -p /var/run/dovetail && chown 65532:65532 /var/run/dovetail
# Told on every log line; nothing else depends on it.
ARG COMMIT=
ENV DOVETAIL_COMMIT=${COMMIT}
USER 65532:65532
EXPOSE 8080
# The event loop turns. Kubernetes has its own probes, docker-compose.yml asks whether the part is ready.
HEALTHCHECK --interval=10s --timeout=4s --start-period=30s --retries=6 \
    CMD ["python", "-ISc", "import os, socket as s; c = s.create_connection(('127.0.0.1', int(os.environ.get('STATUS_PORT', 8080))), 3); c.sendall(b'GET /healthz HTTP/1.0\\r\\n\\r\\n'); raise SystemExit(b' 200 ' not in c.recv(64))"]
# All five services in one process; docker-compose.yml and deploy/kubernetes run one each.
CMD ["python", "-m", "services"]

# syntax=docker/dockerfile:1
# One image for all five services, the AWS emulator and the embedded cluster; the command chooses.
#   docker build --tag dovetail:local --build-arg COMMIT="$(git rev-parse HEAD)" .
# Behind a proxy with a certificate authority of its own:
#   docker build --secret id=ca_bundle,src=/path/to/ca.pem --tag dovetail:local .
ARG BASE_IMAGE=python:3.11-slim

FROM ${BASE_IMAGE} AS build
WORKDIR /build
COPY requirements.lock ./
RUN --mount=type=secret,id=ca_bundle,required=false \
    python3 -m venv /opt/venv \
    && if [ -s /run/secrets/ca_bundle ]; then export PIP_CERT=/run/secrets/ca_bundle; fi \
    && /opt/venv/bin/python -m pip install --no-cache-dir --disable-pip-version-check \
       --require-hashes --requirement requirements.lock

FROM ${BASE_IMAGE}
# Told on every log line; nothing else depends on it.
ARG COMMIT=
# The venv's interpreter is a link to this image's own, so both stages must start from the same base.
COPY --from=build /opt/venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONPATH=/app \
    PYTHONUNBUFFERED=1 \
    MALLOC_ARENA_MAX=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    AWS_EC2_METADATA_DISABLED=true \
    DOVETAIL_COMMIT=${COMMIT}
WORKDIR /app
COPY services services
COPY shared shared
COPY local local
COPY cli cli
COPY deploy/crds deploy/crds
RUN python -m compileall -q services shared local cli \
    # A named volume that is mounted here takes over this owner: the cluster writes its kubeconfig there.
    && mkdir -p /var/run/dovetail && chown 65532:65532 /var/run/dovetail
USER 65532:65532
EXPOSE 8080
# All five services in one process; docker-compose.yml and deploy/kubernetes run one each.
CMD ["python", "-m", "services"]
